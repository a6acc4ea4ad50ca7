/** The turns of a session's agent: one at a time, in the order in which they were accepted. */

import { onAbort } from '../../lib/abort.ts';
import { SerialQueue } from '../../lib/queues.ts';
import { asError } from '../../lib/values.ts';
import type { AgentProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import {
  type AgentName,
  isTurnOver,
  type PromptFields,
  type Transcript,
  type TurnInfo,
  type TurnResult,
} from '../../protocol/turn.ts';
import type { Storage, StoredTranscript } from '../../storage/contract.ts';
import { newSortableId } from '../ids.ts';
import type { ByteLimit } from '../request-limits.ts';
import { drainingError } from '../server-control.ts';
import { fingerprint, type IdempotencyStore, IdempotentRequests } from '../sessions/idempotency.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import {
  noAgentsError,
  RECORDED_CHARS,
  type RunnerTurn,
  resultOfFailure,
  SessionTurn,
  TurnExecutor,
  type TurnExecutorParts,
  truncate,
} from './session-turn.ts';
import { StoredTranscripts, TurnRecords } from './turn-records.ts';

/** A prompt as the caller sends it. */
export interface PromptRequest extends Readonly<Omit<PromptFields, 'mode'>> {
  /** Default: `ask`. */
  readonly mode?: PromptFields['mode'] | undefined;
  /** The id of the user, whose credentials and budgets are used. */
  readonly by: string;
  readonly agent?: AgentName | undefined;
  /** The limit of the turn once it runs; 0 means none. */
  readonly timeoutMs?: number | undefined;
  readonly onBusy?: 'queue' | 'refuse' | undefined;
  readonly profile?: { readonly name: string; readonly content: AgentProfile } | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Stops the turn when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

interface AcceptedTurn {
  readonly turn: string;
  /** Whether an earlier request with the same Idempotency-Key created it. */
  readonly replayed: boolean;
  /** As it was accepted. */
  readonly info: TurnInfo;
  /** The sequence number of `turn_started`. Rejects if the turn never starts. */
  readonly started: Promise<number>;
  /** Resolves when the end is durable, also for a failed turn. Rejects only if the turn never started. */
  readonly ended: Promise<TurnInfo>;
}

interface StopTurnsRequest {
  readonly turn?: string | undefined;
  /** Also queued turns. */
  readonly all?: boolean | undefined;
}

export interface TurnPage {
  readonly turns: TurnInfo[];
  readonly next?: string | undefined;
}

/** Runs a turn to its end. Rejects if it could not be run, or if its runner failed. */
export type RunTurn = (turn: RunnerTurn) => Promise<TurnResult>;

/** What runs the turns of all sessions. */
export interface TurnRunner {
  readonly run: RunTurn;
  /** Rejects if a turn could only fail: unknown agent, program not installed, no credential of this user. */
  checkCanRun(options: { readonly agent: AgentName; readonly userId: string }): Promise<void>;
  /** Starts a runner for the next turn if there is room, without waiting. True if one runs or starts. */
  prestart(session: Pick<ServerSession, 'runnerSpec'>, agent: AgentName): Promise<boolean>;
  /** Stops the runner of a closed session. */
  stop(session: string, why: string): Promise<void>;
  /** Deletes the tokens and the usage of a deleted session. */
  deleteSessionData(session: string): Promise<void>;
}

const DEFAULT_AGENT = 'claude';

export interface SessionTurnsParts extends Omit<TurnExecutorParts, 'records' | 'transcripts' | 'isClosed'> {
  /** The key of its transcripts in storage. */
  readonly key: string;
  readonly storage: Pick<Storage, 'documents' | 'transcripts'>;
  readonly requests: IdempotencyStore;
  readonly definition: { readonly settings: Pick<SessionInfo['settings'], 'queueLimit'> };
  readonly draining: () => boolean;
  /** The bytes of queued and running prompts, by their user. */
  readonly queuedBytes: ByteLimit;
}

/** The stored name of an Idempotency-Key, and the fingerprint of its request. */
interface RequestKey {
  readonly name: string;
  readonly asked: string;
}

export class SessionTurns {
  readonly #parts: SessionTurnsParts;
  readonly #records: TurnRecords;
  readonly #transcripts: StoredTranscripts;
  readonly #turns = new SerialQueue();
  readonly #live = new Map<string, SessionTurn>();
  readonly #keyed: IdempotentRequests<SessionTurn, TurnInfo>;
  readonly #executor: TurnExecutor;
  #closed: CellaError | undefined;

  constructor(parts: SessionTurnsParts) {
    this.#parts = parts;
    this.#records = new TurnRecords(parts.storage.documents, parts.session.id);
    this.#transcripts = new StoredTranscripts(parts.storage.transcripts, parts.key);
    this.#keyed = new IdempotentRequests(parts.requests, 'prompt');
    const [records, transcripts] = [this.#records, this.#transcripts];
    this.#executor = new TurnExecutor({ ...parts, records, transcripts, isClosed: () => this.#closed !== undefined });
  }

  /** The turn that runs. */
  get running(): string | undefined {
    return [...this.#live.values()].find(({ record }) => record.status === 'running')?.id;
  }

  async prompt(options: PromptRequest): Promise<AcceptedTurn> {
    this.#checkOpen();
    this.#parts.session.requireConfirmed();
    if (!this.#parts.agents) throw noAgentsError();
    if (options.idempotencyKey === undefined) return this.#toAccepted(await this.#accept(options));
    const asked = fingerprintOf(options);
    const submitted = await this.#keyed.submit(options.idempotencyKey, {
      fingerprint: asked,
      replay: async (record) => await this.#findStarted(record.turn),
      start: (name) => this.#accept(options, { name, asked }),
      ended: (turn) => turn.ended,
    });
    return 'live' in submitted ? this.#toAccepted(submitted.live, submitted.replayed) : fromRecord(submitted.ended);
  }

  /** Starts a runner for a prompt that is about to come. True if one runs or starts. Rejects if a turn could only fail. */
  async prestart({ agent, by }: { readonly agent: AgentName; readonly by: string }): Promise<boolean> {
    this.#checkOpen();
    this.#parts.session.requireConfirmed();
    const { agents, session } = this.#parts;
    if (!agents) throw noAgentsError();
    await agents.checkCanRun({ agent, userId: by });
    return await agents.prestart(session, agent);
  }

  /** Returns the turns that were stopped. They have ended when it resolves. */
  async stop({ turn, all = false }: StopTurnsRequest = {}): Promise<readonly string[]> {
    const wanted = [...this.#live.values()].filter(({ id, record }) =>
      turn === undefined ? all || record.status === 'running' : id === turn,
    );
    for (const one of wanted) one.stop({ kind: 'stopped' });
    await Promise.allSettled(wanted.map(({ ended }) => ended));
    // Also cancels permissions that were pending when an earlier server ended.
    await this.#parts.permissions.cancelOrphaned(turn);
    return wanted.map(({ id }) => id);
  }

  async get(turn: string) {
    const live = this.#live.get(turn);
    return live ? liveInfo(live, this.#ahead(turn)) : await this.#records.get(turn);
  }

  /** Newest first. */
  list(options: { readonly limit?: number; readonly before?: string | undefined } = {}): Promise<TurnPage> {
    return this.#records.page(options);
  }

  /** The last conversation, or the named one. Throws `NOT_FOUND`. */
  async transcript(conversation?: string): Promise<Omit<Transcript, 'text'> & Pick<StoredTranscript, 'text'>> {
    const last = (await this.#records.all()).findLast((record) =>
      conversation === undefined ? record.conversation !== undefined : record.conversation === conversation,
    );
    const found = last?.conversation === undefined ? undefined : await this.#transcripts.get(last.conversation);
    if (last?.conversation !== undefined && found) {
      const { revision, text } = found;
      return { agent: last.agent, conversation: last.conversation, revision, text };
    }
    throw new CellaError('NOT_FOUND', 'The session has no such conversation, or it has been removed.');
  }

  /** Whether a turn runs or waits. */
  get busy(): boolean {
    return this.#live.size > 0;
  }

  /** Resolves when no turn runs or waits. */
  idle(): Promise<void> {
    return this.#turns.idle();
  }

  /** The log cannot be written any more. */
  abort(error: CellaError): void {
    for (const turn of this.#live.values()) turn.stop({ kind: 'failed', error });
  }

  /** Fails queued and new turns with this error and interrupts the running one. Resolves when all have ended. */
  async close(why: CellaError): Promise<void> {
    this.#closed ??= why;
    for (const turn of this.#live.values()) turn.stop({ kind: 'closing' });
    await this.idle();
    await this.#parts.agents?.stop(this.#parts.session.id, 'its session is closed');
  }

  async remove(): Promise<void> {
    await this.#records.remove();
  }

  /** The record of a turn that has ended. A turn that never started may start again. */
  async #findStarted(turn: string | undefined): Promise<TurnInfo | undefined> {
    const record = turn === undefined ? undefined : await this.#records.find(turn);
    return record && isTurnOver(record) && record.firstSeq !== undefined ? record : undefined;
  }

  async #accept(options: PromptRequest, request?: RequestKey): Promise<SessionTurn> {
    const waiting = this.#live.size;
    if (waiting > 0 && options.onBusy === 'refuse') throw turnRunning(this.running);
    if (waiting > this.#parts.definition.settings.queueLimit) {
      const message = `The agent is busy, and ${waiting - 1} prompts are already waiting.`;
      throw new CellaError('TURN_RUNNING', message, { details: { queued: waiting - 1 } });
    }
    using place = new DisposableStack();
    place.use(this.#parts.queuedBytes.reserve(options.by)).add(Buffer.byteLength(options.prompt));
    const id = newSortableId('trn');
    const turn = new SessionTurn(options, {
      id,
      agent: options.agent ?? DEFAULT_AGENT,
      mode: options.mode ?? 'ask',
      model: options.model,
      profile: options.profile?.name,
      prompt: truncate(options.prompt, RECORDED_CHARS),
      by: options.by,
      status: 'queued',
      queuedAt: Date.now(),
    });
    // Synchronous, so that later requests see it.
    this.#live.set(id, turn);
    try {
      if (options.agent === undefined) await this.#useLastAgent(turn);
      await this.#parts.agents?.checkCanRun({ agent: turn.record.agent, userId: options.by });
      if (request) await this.#parts.requests.put(request.name, { turn: id, asked: request.asked, at: Date.now() });
      await this.#records.add(turn.record);
      await this.#logQueued(id);
      this.#checkOpen();
    } catch (error) {
      this.#live.delete(id);
      turn.fail(asError(error));
      throw error;
    }
    onAbort(turn.signal, () => {
      if (turn.record.status === 'queued') void this.#cancelQueued(turn).catch((error) => turn.fail(error));
    });
    const held = place.move();
    const run = () => this.#run(turn).finally(() => held.dispose());
    this.#turns.run(run).catch((error) => turn.fail(error));
    return turn;
  }

  #toAccepted(turn: SessionTurn, replayed = false): AcceptedTurn {
    const { id, started, ended } = turn;
    return { turn: id, replayed, info: liveInfo(turn, this.#ahead(id)), started, ended };
  }

  /** How many turns are before it. */
  #ahead(turn: string): number {
    return Math.max(0, [...this.#live.keys()].indexOf(turn));
  }

  async #logQueued(turn: string): Promise<void> {
    const [ahead, running] = [this.#ahead(turn), this.running];
    if (ahead === 0) return;
    const event = { type: 'turn_queued', turn, ahead, running } as const;
    await this.#parts.writer.write(event, { flushed: true });
  }

  /** Uses the agent of the last turn. */
  async #useLastAgent(turn: SessionTurn): Promise<void> {
    const last = (await this.#records.all()).at(-1);
    if (last) turn.record = { ...turn.record, agent: last.agent };
  }

  async #run(turn: SessionTurn): Promise<void> {
    try {
      if (turn.signal.aborted || this.#closed) await this.#cancelQueued(turn);
      else await this.#executor.run(turn);
    } finally {
      this.#live.delete(turn.id);
    }
  }

  /** Ends a queued turn at once. */
  #cancelQueued(turn: SessionTurn): Promise<void> {
    turn.cancelled ??= this.#executor
      .finish(turn, resultOfFailure(undefined, turn.reason ?? { kind: 'closing' }))
      .then(() => {
        this.#live.delete(turn.id);
        turn.end(turn.record);
      });
    return turn.cancelled;
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
    if (this.#parts.draining()) throw drainingError();
  }
}

/**
 * Must stay the same across upgrades: otherwise a retry would conflict with its first request. A new field is added at the end,
 * and only if it is given.
 */
function fingerprintOf({ prompt, agent, mode, model, timeoutMs, profile, tools }: PromptRequest): string {
  const later = tools === undefined ? [] : [{ tools }];
  return fingerprint(prompt, agent, mode, model, timeoutMs, profile?.name, ...later);
}

/** `ahead`: how many turns are before it. */
function liveInfo({ record }: SessionTurn, ahead: number): TurnInfo {
  return record.status === 'queued' ? { ...record, ahead } : record;
}

function fromRecord(info: TurnInfo): AcceptedTurn {
  return {
    turn: info.id,
    replayed: true,
    info,
    started: Promise.resolve(info.firstSeq ?? 0),
    ended: Promise.resolve(info),
  };
}

function turnRunning(turn: string | undefined): CellaError {
  return new CellaError('TURN_RUNNING', 'The agent of this session is already running a turn.', { details: { turn } });
}
