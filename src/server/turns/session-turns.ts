/** The turns of a session's agent: one at a time, each in the log from its beginning to its one ending. */

import { SerialQueue } from '../../lib/serial-queue.ts';
import type { Transcript } from '../../protocol/api/agent-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type AgentName, isTurnOver } from '../../protocol/turn.ts';
import type { Storage } from '../../storage/contract.ts';
import { newTurnId } from '../ids.ts';
import { fingerprint, idempotencyName } from '../sessions/idempotency.ts';
import { stopping } from '../stopping.ts';
import { accepted, busy, joined, liveInfo, noAgents } from './accepted.ts';
import { short } from './bounded.ts';
import type { AcceptedTurn, PromptWish, SessionTurnsApi, StopWish, TurnPage } from './contract.ts';
import { failureOf } from './ending.ts';
import { infoOf, type TurnRecord, TurnRecords } from './records.ts';
import { KEPT, Stage, type StageParts } from './stage.ts';
import { Transcripts } from './transcripts.ts';
import { HostedTurn } from './turn.ts';

const DEFAULT_AGENT = 'claude';

export interface SessionTurnsParts extends Omit<StageParts, 'records' | 'transcripts' | 'isClosed'> {
  /** Under which its transcripts are kept. */
  readonly key: string;
  readonly storage: Pick<Storage, 'documents' | 'transcripts'>;
  readonly queueLimit: () => number;
  readonly stopping: () => boolean;
  /** FORK_UNCONFIRMED where no agent may work in it yet. */
  readonly requireConfirmed: () => void;
}

/** The name of the request that brings a turn, where it has an Idempotency-Key, and a digest of what it asks for. */
interface Asked {
  readonly request?: string;
  readonly asked?: string;
}

type Entered =
  | { readonly known: HostedTurn; readonly isNew: true }
  | { readonly known: HostedTurn | TurnRecord; readonly isNew: false };

export class SessionTurns implements SessionTurnsApi {
  readonly #parts: SessionTurnsParts;
  readonly #records: TurnRecords;
  readonly #transcripts: Transcripts;
  readonly #turns = new SerialQueue();
  readonly #live = new Map<string, HostedTurn>();
  /** By the name of the request that is being accepted. */
  readonly #entering = new Map<string, Promise<Entered>>();
  readonly #stage: Stage;
  #closed: CellaError | undefined;

  constructor(parts: SessionTurnsParts) {
    this.#parts = parts;
    this.#records = new TurnRecords(parts.storage.documents, parts.session.id);
    this.#transcripts = new Transcripts(parts.storage.transcripts, parts.key);
    const [records, transcripts] = [this.#records, this.#transcripts];
    this.#stage = new Stage({ ...parts, records, transcripts, isClosed: () => this.#closed !== undefined });
  }

  /** The turn that runs. */
  get running(): string | undefined {
    return [...this.#live.values()].find(({ record }) => record.status === 'running')?.id;
  }

  async prompt(wish: PromptWish): Promise<AcceptedTurn> {
    this.#checkOpen();
    this.#parts.requireConfirmed();
    if (!this.#parts.agents) throw noAgents();
    if (wish.idempotencyKey === undefined) return this.#accepted(await this.#accept(wish, {}));
    const request = idempotencyName(wish.idempotencyKey);
    const { prompt, agent, mode, model, tools, timeoutMs, profile } = wish;
    const asked = fingerprint(prompt, agent, mode, model, tools, timeoutMs, profile?.name);
    // Before anything is waited for: of two with one key at once, the second finds the first.
    const before = this.#entering.get(request);
    const entering = before ?? this.#enter(wish, { request, asked }).finally(() => this.#entering.delete(request));
    if (!before) this.#entering.set(request, entering);
    const { known, isNew } = await entering;
    return !before && isNew ? this.#accepted(known) : joined(known, asked, this.#ahead(known.id));
  }

  async warm({ agent, by }: { readonly agent: AgentName; readonly by: string }): Promise<boolean> {
    this.#checkOpen();
    this.#parts.requireConfirmed();
    const { agents, session } = this.#parts;
    if (!agents) throw noAgents();
    await agents.admit({ agent, userId: by });
    return await agents.warm(session, agent);
  }

  async stop({ turn, all = false }: StopWish = {}): Promise<readonly string[]> {
    const wanted = [...this.#live.values()].filter(({ id, record }) =>
      turn === undefined ? all || record.status === 'running' : id === turn,
    );
    for (const one of wanted) one.stop({ kind: 'stopped' });
    await Promise.allSettled(wanted.map(({ ended }) => ended));
    // What it waited for when a server ended is not wanted any more, either.
    await this.#parts.permissions.cancelOrphaned(turn);
    return wanted.map(({ id }) => id);
  }

  async get(turn: string) {
    const live = this.#live.get(turn);
    return live ? liveInfo(live, this.#ahead(turn)) : infoOf(await this.#records.get(turn));
  }

  list(options: { readonly limit?: number; readonly before?: string | undefined } = {}): Promise<TurnPage> {
    return this.#records.page(options);
  }

  async transcript(conversation?: string): Promise<Transcript> {
    const last = (await this.#records.all()).findLast((record) =>
      conversation === undefined ? record.conversation !== undefined : record.conversation === conversation,
    );
    const found = last?.conversation === undefined ? undefined : await this.#transcripts.get(last.conversation);
    if (last?.conversation !== undefined && found) {
      return { agent: last.agent, conversation: last.conversation, ...found };
    }
    throw new CellaError('NOT_FOUND', 'The session has no such conversation, or it is no longer kept.');
  }

  /** Whether a turn runs or waits. */
  get busy(): boolean {
    return this.#live.size > 0;
  }

  /** Resolves when no turn runs or waits. */
  idle(): Promise<void> {
    return this.#turns.idle();
  }

  /** Nothing more of what runs can be written down. */
  abort(error: CellaError): void {
    for (const turn of this.#live.values()) turn.stop({ kind: 'failed', error });
  }

  /** What waits and what comes gets this error; what runs is interrupted. Resolves when it is over. */
  async close(why: CellaError): Promise<void> {
    this.#closed ??= why;
    for (const turn of this.#live.values()) turn.stop({ kind: 'closing' });
    await this.idle();
    await this.#parts.agents?.retire(this.#parts.session.id, 'its session is closed');
  }

  async remove(): Promise<void> {
    await this.#records.remove();
  }

  /** What the key has brought before, or the turn that it brings. */
  async #enter(wish: PromptWish, request: Required<Asked>): Promise<Entered> {
    const live = [...this.#live.values()].find(({ record }) => record.request === request.request);
    if (live) return { known: live, isNew: false };
    const known = await this.#records.byRequest(request.request);
    // What never began may begin.
    if (known && isTurnOver(known) && known.firstSeq !== undefined) return { known, isNew: false };
    return { known: await this.#accept(wish, request), isNew: true };
  }

  async #accept(wish: PromptWish, request: Asked): Promise<HostedTurn> {
    const waiting = this.#live.size;
    if (waiting > 0 && wish.onBusy === 'refuse') throw busy(this.running);
    if (waiting > this.#parts.queueLimit()) {
      const message = `The agent is busy, and ${waiting - 1} prompts wait for it already.`;
      throw new CellaError('TURN_RUNNING', message, { details: { queued: waiting - 1 } });
    }
    const id = newTurnId();
    const turn = new HostedTurn(wish, {
      id,
      agent: wish.agent ?? DEFAULT_AGENT,
      mode: wish.mode ?? 'ask',
      ...(wish.model === undefined ? {} : { model: wish.model }),
      ...(wish.profile === undefined ? {} : { profile: wish.profile.name }),
      prompt: short(wish.prompt, KEPT),
      by: wish.by,
      status: 'queued',
      queuedAt: Date.now(),
      ...request,
    });
    // Before anything is waited for: whoever comes meanwhile finds it.
    this.#live.set(id, turn);
    try {
      if (wish.agent === undefined) await this.#choose(turn);
      await this.#parts.agents?.admit({ agent: turn.record.agent, userId: wish.by });
      await this.#records.add(turn.record);
      await this.#tellWaiting(id);
      this.#checkOpen();
    } catch (error) {
      this.#live.delete(id);
      turn.fail(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
    const stopped = () => {
      if (turn.record.status === 'queued') void this.#takeBack(turn).catch((error) => turn.fail(error));
    };
    turn.signal.addEventListener('abort', stopped, { once: true });
    if (turn.signal.aborted) stopped();
    this.#turns.run(() => this.#perform(turn)).catch((error) => turn.fail(error));
    return turn;
  }

  #accepted(turn: HostedTurn): AcceptedTurn {
    return accepted(turn, this.#ahead(turn.id));
  }

  /** How many were accepted before it, and are not over. */
  #ahead(turn: string): number {
    return Math.max(0, [...this.#live.keys()].indexOf(turn));
  }

  async #tellWaiting(turn: string): Promise<void> {
    const [ahead, running] = [this.#ahead(turn), this.running];
    if (ahead === 0) return;
    const event = { type: 'turn_queued', turn, ahead, ...(running === undefined ? {} : { running }) } as const;
    await this.#parts.writer.write(event, { flushed: true });
  }

  /** The agent of the turn before goes on. */
  async #choose(turn: HostedTurn): Promise<void> {
    const last = (await this.#records.all()).at(-1);
    if (last) turn.record = { ...turn.record, agent: last.agent };
  }

  async #perform(turn: HostedTurn): Promise<void> {
    try {
      if (turn.signal.aborted || this.#closed) await this.#takeBack(turn);
      else await this.#stage.perform(turn);
    } finally {
      this.#live.delete(turn.id);
    }
  }

  /** Over at once, however long those before it take. */
  #takeBack(turn: HostedTurn): Promise<void> {
    turn.takenBack ??= this.#stage.finish(turn, failureOf(undefined, turn.reason ?? { kind: 'closing' })).then(() => {
      this.#live.delete(turn.id);
      turn.end(infoOf(turn.record));
    });
    return turn.takenBack;
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
    if (this.#parts.stopping()) throw stopping();
  }
}
