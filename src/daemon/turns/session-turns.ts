/** The turns of a session's agent: one at a time, each in the log from its beginning to its one ending. */

import { setTimeout as delay } from 'node:timers/promises';
import { Turns } from '../../pool/turns.ts';
import type { TurnStatus } from '../../protocol/agent/names.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Transcript } from '../../protocol/http/agent-routes.ts';
import { isOver } from '../../protocol/http/turns.ts';
import type { Storage } from '../../storage/contract.ts';
import type { SessionPermissions } from '../permissions/contract.ts';
import type { HostedSession } from '../sessions/contract.ts';
import type { EventWriter } from '../sessions/event-writer.ts';
import { newTurnId } from '../sessions/ids.ts';
import type { Outputs } from '../sessions/outputs.ts';
import { digest, requestName } from '../sessions/requests.ts';
import { BoundedEvents, type Bounds, short } from './bounded.ts';
import type {
  AcceptedTurn,
  AgentRunner,
  PromptWish,
  SessionTurnsApi,
  StopWish,
  TurnEnding,
  TurnPage,
} from './contract.ts';
import { type Ending, endingOf, failureOf } from './ending.ts';
import { infoOf, TurnRecords } from './records.ts';
import { endedEvent } from './recover.ts';
import { Transcripts } from './transcripts.ts';
import { HostedTurn, type StopReason } from './turn.ts';

/** How often storage that does not work is tried again. */
const AGAIN_MS = 500;
/** Of the prompt and of the last answer, what a record keeps. */
const KEPT = 2000;
const DEFAULT_AGENT = 'claude';

export interface SessionTurnsParts {
  readonly session: HostedSession;
  /** Under which its transcripts are kept. */
  readonly key: string;
  readonly storage: Pick<Storage, 'documents' | 'transcripts'>;
  readonly permissions: Pick<SessionPermissions, 'request' | 'cancelOf'>;
  readonly writer: EventWriter;
  readonly outputs: Outputs;
  readonly bounds: Bounds;
  readonly queueLimit: () => number;
  readonly stopping: () => boolean;
  /** Undefined where this server runs no agents. */
  readonly agents: AgentRunner | undefined;
  readonly onEnded: (status: TurnStatus) => void;
}

export class SessionTurns implements SessionTurnsApi {
  readonly #parts: SessionTurnsParts;
  readonly #records: TurnRecords;
  readonly #transcripts: Transcripts;
  readonly #turns = new Turns();
  readonly #live = new Map<string, HostedTurn>();
  /** By the name of the request that is being accepted. */
  readonly #entering = new Map<string, Promise<HostedTurn>>();
  #closed: CellaError | undefined;

  constructor(parts: SessionTurnsParts) {
    this.#parts = parts;
    this.#records = new TurnRecords(parts.storage.documents, parts.session.id);
    this.#transcripts = new Transcripts(parts.storage.transcripts, parts.key);
  }

  /** The turn that runs. */
  get running(): string | undefined {
    return [...this.#live.values()].find(({ record }) => record.status === 'running')?.id;
  }

  async prompt(wish: PromptWish): Promise<AcceptedTurn> {
    this.#checkOpen();
    if (!this.#parts.agents) throw noAgents();
    if (wish.idempotencyKey === undefined) return accepted(await this.#accept(wish, {}), false);
    const request = requestName(wish.idempotencyKey);
    const asked = digest(wish.prompt, wish.agent, wish.mode, wish.model, wish.timeoutMs, wish.profile?.name);
    const entering = this.#entering.get(request);
    if (entering) return joined(await entering, asked);
    const live = [...this.#live.values()].find(({ record }) => record.request === request);
    if (live) return joined(live, asked);
    const known = await this.#records.byRequest(request);
    // What never began may begin.
    if (known && isOver(known) && known.firstSeq !== undefined) return remembered(known, asked);
    const there = this.#entering.get(request);
    if (there) return joined(await there, asked);
    const accepting = this.#accept(wish, { request, asked }).finally(() => this.#entering.delete(request));
    this.#entering.set(request, accepting);
    return accepted(await accepting, false);
  }

  async stop({ turn, all = false }: StopWish = {}): Promise<readonly string[]> {
    const wanted = [...this.#live.values()].filter(({ id, record }) =>
      turn === undefined ? all || record.status === 'running' : id === turn,
    );
    for (const one of wanted) one.stop({ kind: 'stopped' });
    await Promise.allSettled(wanted.map(({ ended }) => ended));
    return wanted.map(({ id }) => id);
  }

  async get(turn: string) {
    return infoOf(this.#live.get(turn)?.record ?? (await this.#records.get(turn)));
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

  async #accept(
    wish: PromptWish,
    request: { readonly request?: string; readonly asked?: string },
  ): Promise<HostedTurn> {
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
      await this.#records.add(turn.record);
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
    this.#turns.take(() => this.#perform(turn)).catch((error) => turn.fail(error));
    return turn;
  }

  /** The agent of the turn before goes on. */
  async #choose(turn: HostedTurn): Promise<void> {
    const last = (await this.#records.all()).at(-1);
    if (last) turn.record = { ...turn.record, agent: last.agent };
  }

  async #perform(turn: HostedTurn): Promise<void> {
    try {
      if (turn.signal.aborted || this.#closed) return await this.#takeBack(turn);
      const events = new BoundedEvents(this.#parts.outputs, this.#parts.bounds);
      await this.#begin(turn, events);
      const ending = await this.#run(turn, events);
      await this.#finish(turn, ending);
      turn.end(infoOf(turn.record));
    } finally {
      this.#live.delete(turn.id);
    }
  }

  /** Over at once, however long those before it take. */
  #takeBack(turn: HostedTurn): Promise<void> {
    turn.takenBack ??= this.#finish(turn, failureOf(undefined, turn.reason ?? { kind: 'closing' })).then(() => {
      this.#live.delete(turn.id);
      turn.end(infoOf(turn.record));
    });
    return turn.takenBack;
  }

  async #begin(turn: HostedTurn, events: BoundedEvents): Promise<void> {
    const { id, agent, mode, model, by } = turn.record;
    const startedAt = Date.now();
    await this.#update(turn, { status: 'running', startedAt });
    const event = await events.started({
      type: 'turn_started',
      turn: id,
      agent,
      prompt: turn.wish.prompt,
      mode,
      ...(model === undefined ? {} : { model }),
      by,
    });
    const firstSeq = await this.#parts.writer.write(event, { size: event.prompt.length, flushed: true });
    await this.#update(turn, { firstSeq });
    turn.begin(firstSeq);
  }

  async #run(turn: HostedTurn, events: BoundedEvents): Promise<Ending> {
    const { session, writer, permissions, agents } = this.#parts;
    const { record, wish } = turn;
    const { timeoutMs = 0 } = wish;
    const late = timeoutMs === 0 ? undefined : setTimeout(() => turn.stop({ kind: 'timed_out' }), timeoutMs);
    try {
      if (!agents) throw noAgents();
      const before = (await this.#records.all()).findLast(
        ({ agent, conversation }) => agent === record.agent && conversation !== undefined,
      );
      const told: TurnEnding = await agents.run({
        session,
        info: await session.info(),
        turn: turn.id,
        userId: record.by,
        agent: record.agent,
        prompt: wish.prompt,
        mode: record.mode,
        model: record.model,
        profile: wish.profile?.content ?? {},
        conversation: before?.conversation,
        timeoutMs,
        signal: turn.signal,
        emit: async (event) => {
          if (turn.reason?.kind === 'failed') throw turn.reason.error;
          if (event.type === 'agent_session') turn.record = { ...turn.record, conversation: event.conversation };
          if (event.type === 'item_completed' && event.kind === 'message' && event.parent === undefined) {
            turn.record = { ...turn.record, ...(event.text === undefined ? {} : { text: short(event.text, KEPT) }) };
          }
          const parts = await events.take(event);
          // Written with what comes next: whoever tells much need not wait for each.
          await Promise.all(parts.map((one) => writer.write(one, { size: JSON.stringify(one).length, soon: true })));
          if (writer.full) await writer.room();
        },
        permit: (ask) => permissions.request({ ...ask, user: record.by, turn: turn.id, signal: turn.signal }),
        readTranscript: (conversation) => this.#transcripts.get(conversation),
        keepTranscript: (conversation, text) => this.#transcripts.keep(conversation, text),
      });
      return endingOf(told, turn.reason);
    } catch (error) {
      return failureOf(error, turn.reason);
    } finally {
      clearTimeout(late);
      // Nobody waits for it any more. Where storage fails, whoever opens the session next finds it.
      await permissions.cancelOf(turn.id, 'the turn is over').catch(() => {});
    }
  }

  /** Told until storage takes it, or the session ends: whoever opens it next finds that it has not ended. */
  async #finish(turn: HostedTurn, { status, conversation, usage, error }: Ending): Promise<void> {
    const facts = {
      status,
      ...(conversation === undefined ? {} : { conversation }),
      ...(usage === undefined ? {} : { usage }),
      ...(error === undefined ? {} : { error }),
    };
    for (;;) {
      try {
        await this.#update(turn, { ...facts, endedAt: Date.now() });
        await this.#parts.writer.write(endedEvent(turn.record), { flushed: true });
        this.#parts.onEnded(status);
        return;
      } catch (cause) {
        if (this.#closed) throw cause;
        await delay(AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  async #update(turn: HostedTurn, facts: Partial<HostedTurn['record']>): Promise<void> {
    turn.record = { ...turn.record, ...facts };
    await this.#records.put(turn.record);
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
    if (this.#parts.stopping()) throw new CellaError('DAEMON_STOPPING', 'The server is going down.');
  }
}

export type { StopReason };

function accepted(turn: HostedTurn, isJoined: boolean): AcceptedTurn {
  const { id, started, ended } = turn;
  return { turn: id, joined: isJoined, info: infoOf(turn.record), started, ended };
}

function joined(turn: HostedTurn, asked: string): AcceptedTurn {
  if (turn.record.asked !== asked) throw conflict();
  return accepted(turn, true);
}

function remembered(record: HostedTurn['record'], asked: string): AcceptedTurn {
  if (record.asked !== asked) throw conflict();
  const info = infoOf(record);
  return {
    turn: record.id,
    joined: true,
    info,
    started: Promise.resolve(record.firstSeq ?? 0),
    ended: Promise.resolve(info),
  };
}

function conflict(): CellaError {
  return new CellaError('IDEMPOTENCY_CONFLICT', 'This Idempotency-Key came with another request before.');
}

function busy(turn: string | undefined): CellaError {
  const details = turn === undefined ? {} : { turn };
  return new CellaError('TURN_RUNNING', 'The agent of this session has a turn already.', { details });
}

function noAgents(): CellaError {
  return new CellaError('CAPABILITY_MISSING', 'This server runs no agents.', {
    advice: 'Start it with `cella serve`, and install an agent: `cella agents install claude`.',
  });
}
