/**
 * The runners of a server: at most one per session, kept for a while for the next turn. A runner is never reused for
 * another session or user: a process that an agent left running could take the token of the next one.
 */

import { randomBytes } from 'node:crypto';
import { onAbort, raceAbort } from '../../lib/abort.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { IdleTimeout } from '../../lib/deadline.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { TurnResult } from '../../protocol/turn.ts';
import { drainingError } from '../server-control.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import type { RunTurn } from '../turns/session-turns.ts';
import { AgentRunner, type AgentRunnerParts } from './agent-runner.ts';
import type { RunnerSpec } from './runner-environment.ts';

export interface RunnerPoolMetrics {
  readonly live: number;
  /** Of those: starting ones, and ones with a turn. */
  readonly starting: number;
  readonly busy: number;
  readonly waiting: number;
  /** Runners that started, and runners that ended unexpectedly. */
  readonly started: number;
  readonly failures: number;
}

/** Bounded, because sessions that are never prompted again keep theirs. */
const MOST_REASONS = 1000;

export class RunnerPool implements AsyncDisposable {
  readonly #parts: AgentRunnerParts;
  readonly #held = new Map<string, PooledRunner>();
  /** Runners that are closing still count. */
  readonly #closingRunners = new Set<Promise<unknown>>();
  readonly #waiting = new WaitingTurns();
  /** By session: why the last runner ended unexpectedly. The next turn gets it as a notice. */
  readonly #reasons = new BoundedMap<string, string>(MOST_REASONS);
  /** Sessions whose runner ended unexpectedly and will be replaced. */
  readonly #replacing = new Set<string>();
  #started = 0;
  #failures = 0;
  #closed = false;

  constructor(parts: AgentRunnerParts) {
    this.#parts = parts;
  }

  readonly run: RunTurn = async (turn) => {
    const spec = await turn.session.runnerSpec();
    const held = await this.#take(spec, turn);
    try {
      return await this.#perform(held, turn);
    } finally {
      this.#giveBack(spec.info.id, held);
    }
  };

  /** Starts a runner ahead of a prompt if there is room. True if one runs or starts. */
  prestart(spec: RunnerSpec, agent: string): boolean {
    const { idleMs } = this.#parts.settings;
    // Idle runners are not kept, or queued turns come first.
    if (idleMs === 0 || this.#waiting.count > 0) return this.#held.has(spec.info.id);
    void this.#prestart(spec, agent);
    return this.#held.has(spec.info.id);
  }

  /** Stops the runner of a session that has ended or changed. */
  async stop(session: string, why: string): Promise<void> {
    this.#replacing.delete(session);
    const held = this.#held.get(session);
    if (held) await this.#drop(session, held, why);
  }

  metrics(): RunnerPoolMetrics {
    const held = [...this.#held.values()];
    return {
      live: held.length + this.#closingRunners.size,
      starting: held.filter(({ starting }) => starting).length,
      busy: held.filter(({ users, starting }) => users > 0 && !starting).length,
      waiting: this.#waiting.count,
      started: this.#started,
      failures: this.#failures,
    };
  }

  /** The runner of a session; for tests. */
  async runner(session: string): Promise<AgentRunner | undefined> {
    return await this.#held.get(session)?.runner;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#waiting.releaseAll();
    await Promise.all(
      [...this.#held].map(([session, held]) => this.#drop(session, held, 'the server is shutting down')),
    );
    await Promise.all(this.#closingRunners);
  }

  async #perform(held: PooledRunner, turn: RunnerTurn): Promise<TurnResult> {
    // A stop does not wait for the runner to start.
    const runner = await raceAbort(held.runner, turn.signal, stoppedError);
    const { id } = turn.session;
    const reason = this.#reasons.take(id);
    if (reason !== undefined) {
      const text = `The agent’s runner was restarted. The previous one: ${reason}`;
      await turn.emit({ type: 'agent_notice', turn: turn.id, text });
    }
    held.agent = turn.agent;
    return await runner.run(turn);
  }

  async #take(spec: RunnerSpec, { agent, signal, userId }: RunnerTurn): Promise<PooledRunner> {
    const { id } = spec.info;
    for (;;) {
      if (this.#closed) throw drainingError();
      if (signal.aborted) throw stoppedError();
      const known = this.#held.get(id);
      if (known) {
        const unfit = known.unfitFor(spec, userId);
        if (unfit === undefined) return known.take(userId);
        await this.#drop(id, known, unfit);
      } else if (!this.#full) return this.#start(spec, agent).take(userId);
      else await (this.#makeRoom() ?? this.#waiting.wait(signal));
    }
  }

  get #full(): boolean {
    return this.#held.size + this.#closingRunners.size >= this.#parts.settings.maxRunners;
  }

  /** Stops the runner that was idle longest. Synchronously undefined if all are busy, so that no release is missed. */
  #makeRoom(): Promise<unknown> | undefined {
    const idle = [...this.#held].filter(([, { users }]) => users === 0);
    const [oldest] = idle.toSorted(([, one], [, other]) => one.idleSince - other.idleSince);
    if (oldest) return this.#drop(...oldest, 'another session needs a runner');
    return this.#closingRunners.size > 0 ? Promise.race(this.#closingRunners) : undefined;
  }

  #start(spec: RunnerSpec, agent: string): PooledRunner {
    const { id } = spec.info;
    const runner = AgentRunner.start(newRunnerId(), spec, agent, this.#parts);
    const held = new PooledRunner(spec, runner);
    this.#held.set(id, held);
    runner.then(
      (made) => {
        held.starting = false;
        this.#started++;
        void made.died.then((reason) => this.#lost(id, held, reason));
      },
      () => this.#forget(id, held), // the waiting turn gets the error
    );
    return held;
  }

  /** It ended unexpectedly. */
  #lost(session: string, held: PooledRunner, reason: CellaError): void {
    if (this.#held.get(session) !== held) return;
    this.#failures++;
    this.#reasons.set(session, reason.message);
    this.#parts.log(session, `runner lost: ${reason.message}`);
    const { spec, agent } = held;
    // Queued turns come first. A runner without a turn is not replaced, so that it does not restart in a loop.
    if (agent !== undefined && this.#waiting.count === 0) this.#replacing.add(session);
    void this.#drop(session, held, reason.message).then(() => {
      if (this.#replacing.delete(session) && agent !== undefined) void this.#prestart(spec, agent);
    });
  }

  /** Starts a runner ahead of the next turn if there is room. */
  async #prestart(spec: RunnerSpec, agent: string): Promise<void> {
    const { id } = spec.info;
    if (this.#closed || this.#held.has(id) || this.#full) return;
    const held = this.#start(spec, agent);
    held.users++;
    await held.runner.catch(() => {}); // the next turn gets the error
    this.#giveBack(id, held);
  }

  #giveBack(session: string, held: PooledRunner): void {
    held.users--;
    held.idleSince = performance.now();
    if (held.users > 0 || this.#held.get(session) !== held) return;
    if (this.#waiting.count > 0) {
      void this.#drop(session, held, 'another session needs a runner');
      return;
    }
    held.startIdleTimer(this.#parts.settings.idleMs, () => void this.#drop(session, held, 'it was idle'));
  }

  async #drop(session: string, held: PooledRunner, why: string): Promise<void> {
    held.stopIdleTimer();
    if (this.#held.get(session) === held) this.#held.delete(session);
    const closing = held.runner.then((runner) => runner.close(why)).catch(() => {}); // it never started, or has ended
    this.#closingRunners.add(closing);
    await closing;
    this.#closingRunners.delete(closing);
    this.#waiting.releaseNext();
  }

  #forget(session: string, held: PooledRunner): void {
    if (this.#held.get(session) === held) this.#held.delete(session);
    this.#waiting.releaseNext();
  }
}

function newRunnerId(): string {
  return `rnr_${randomBytes(12).toString('hex')}`;
}

function stoppedError(): CellaError {
  return new CellaError('ABORTED', 'The turn was stopped before a runner was free.');
}

class PooledRunner {
  readonly runner: Promise<AgentRunner>;
  readonly spec: RunnerSpec;
  /** A changed spec needs another runner. */
  readonly #specKey: string;
  /** The user who prompted; undefined if it was started ahead. */
  #userId: string | undefined;
  /** The agent of its last turn. */
  agent: string | undefined;
  starting = true;
  users = 0;
  idleSince = 0;
  #idle: IdleTimeout | undefined;

  constructor(spec: RunnerSpec, runner: Promise<AgentRunner>) {
    this.spec = spec;
    this.#specKey = specKey(spec);
    this.runner = runner;
  }

  /** Why another runner is needed; undefined if this one fits. */
  unfitFor(spec: RunnerSpec, userId: string): string | undefined {
    if (this.#specKey !== specKey(spec)) return 'the settings of its session have changed';
    return this.#userId === undefined || this.#userId === userId ? undefined : 'another user has prompted';
  }

  take(userId: string): this {
    this.stopIdleTimer();
    this.users++;
    this.#userId = userId;
    return this;
  }

  /** Calls `onIdle` after this idle time; 0 means at once. */
  startIdleTimer(idleMs: number, onIdle: () => void): void {
    this.#idle = new IdleTimeout(idleMs, onIdle);
    if (idleMs === 0) onIdle();
    else this.#idle.restart();
  }

  /** It is in use or closing. */
  stopIdleTimer(): void {
    this.#idle?.stop();
  }
}

function specKey({ info, workspaceOf }: RunnerSpec): string {
  return JSON.stringify([info.settings, workspaceOf]);
}

interface WaitingTurn {
  readonly enter: () => void;
}

class WaitingTurns {
  readonly #waiters: WaitingTurn[] = [];

  get count(): number {
    return this.#waiters.length;
  }

  /** Resolves when there is room, or on abort. */
  async wait(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { enter: resolve };
    this.#waiters.push(waiter);
    using _ = onAbort(signal, resolve);
    await promise;
    const at = this.#waiters.indexOf(waiter);
    if (at !== -1) this.#waiters.splice(at, 1);
    // It was aborted after it was released: the next one gets the room.
    else if (signal.aborted) this.releaseNext();
  }

  releaseNext(): void {
    this.#waiters.shift()?.enter();
  }

  releaseAll(): void {
    for (const { enter } of this.#waiters.splice(0)) enter();
  }
}
