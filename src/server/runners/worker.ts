/** One executor: an environment, a runner in it, and its gate; for one session, and one turn at a time. */

import { setTimeout as delay } from 'node:timers/promises';
import { checkMode } from '../../environments/execution-environment.ts';
import { CellaError } from '../../protocol/errors.ts';
import { toFailure } from '../turns/ending.ts';
import type { TurnEnding, TurnTask } from '../turns/turn.ts';
import type { Tenant } from './contract.ts';
import { type Equipment, equip, type WorkerParts } from './equip.ts';
import type { Gate } from './gate.ts';
import { patience } from './patience.ts';
import { closed, EXIT_MS, ended } from './worker-ends.ts';

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'busy'; readonly turn: string; readonly token?: string }
  | { readonly kind: 'dead'; readonly reason: CellaError };

export class Worker {
  readonly id: string;
  readonly tenant: Tenant;
  readonly #parts: WorkerParts;
  readonly #made: Equipment;
  readonly #died = Promise.withResolvers<CellaError>();
  #state: State = { kind: 'idle' };
  #ping: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  private constructor(id: string, tenant: Tenant, parts: WorkerParts, made: Equipment) {
    this.id = id;
    this.tenant = tenant;
    this.#parts = parts;
    this.#made = made;
    const { execution, link } = made;
    void link.closed.then((reason) => this.#hungUp(reason));
    void execution.exited.then(
      (exit) => this.#die(ended(exit, made.words.last)),
      (cause) => this.#die(new CellaError('WORKER_FAILED', `The executor never began: ${String(cause)}.`, { cause })),
    );
    this.#pingLater();
  }

  /** `agent`: the one that it will most likely run; it is loaded ahead. */
  static async start(id: string, tenant: Tenant, agent: string, parts: WorkerParts): Promise<Worker> {
    let worker: Worker | undefined;
    const made = await equip({ id, tenant, agent, parts, turn: () => worker?.turn });
    worker = new Worker(id, tenant, parts, made);
    return worker;
  }

  get state(): State['kind'] {
    return this.#state.kind;
  }

  /** The one that it has now. */
  get turn(): string | undefined {
    return this.#state.kind === 'busy' ? this.#state.turn : undefined;
  }

  /** Resolves with the reason when it has ended. */
  get died(): Promise<CellaError> {
    return this.#died.promise;
  }

  /** That of the turn, while it is good. */
  get #token(): string | undefined {
    return this.#state.kind === 'busy' ? this.#state.token : undefined;
  }

  get #reason(): CellaError | undefined {
    return this.#state.kind === 'dead' ? this.#state.reason : undefined;
  }

  get gate(): Pick<Gate, 'restart'> {
    return this.#made.gate;
  }

  /** Rejects where the executor has failed; the turn that it had is over by that. */
  async run(task: TurnTask): Promise<TurnEnding> {
    if (this.#state.kind !== 'idle') throw new CellaError('WORKER_FAILED', `The executor ${this.id} is ${this.state}.`);
    this.#state = { kind: 'busy', turn: task.turn };
    using waiting = patience(task.signal, this.#parts.settings.stopMs, (late) => this.#die(late));
    const performed = this.#perform(task);
    performed.catch(() => {}); // told, unless nobody waits for it any more
    try {
      return await Promise.race([performed, waiting.over]);
    } catch (error) {
      throw this.#reason ?? error;
    } finally {
      if (this.state === 'busy') this.#state = { kind: 'idle' };
    }
  }

  /** TERM, then KILL of all that it has started. May be called again. */
  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(closed(reason));
    return this.#closing;
  }

  async #perform(task: TurnTask): Promise<TurnEnding> {
    const { conversations, settings } = this.#parts;
    const { place, link } = this.#made;
    checkMode(task.mode, place.environment);
    await place.programDir(task.agent);
    let conversation = await conversations.prepare(place, task);
    const emit: TurnTask['emit'] = (event) => {
      if (event.type === 'agent_session') conversation = event.conversation;
      return task.emit(event);
    };
    const told = await this.#execute({ ...task, conversation, emit });
    if (conversation !== undefined && this.#reason === undefined) {
      const named = conversation;
      const read = () => link.readTranscript(task, named, settings.pingMs);
      await conversations.keep(place, task, named, read).catch((error) => this.#note(error));
    }
    return told;
  }

  /** Under a token of its own, which is no good once the turn has ended; nor is what was opened with it. */
  async #execute(task: TurnTask): Promise<TurnEnding> {
    const { tokens, settings } = this.#parts;
    const { link, gate } = this.#made;
    const binding = { session: task.session.id, task: task.turn, executor: this.id };
    const limits = { ttlMs: settings.tokenMs, mostUses: settings.tokenUses };
    const token = await tokens.issue({ userId: task.userId }, binding, limits);
    if (this.state === 'busy') this.#state = { kind: 'busy', turn: task.turn, token };
    // Where it does not listen, it is ended.
    const stop = () => void link.stopTask(task.turn, settings.stopMs).catch(() => {});
    task.signal.addEventListener('abort', stop, { once: true });
    try {
      const running = link.execute(task, token);
      if (task.signal.aborted) stop();
      const { status, conversation, token_usage: usage, error } = await running;
      // The agent has it in its provider's words; whoever prompts can do something about ours.
      const refused = this.#parts.refusalOf(task.turn);
      const told = status === 'failed' && refused ? toFailure(refused) : error;
      return { status, conversation, usage, error: told };
    } catch (error) {
      // How it ended says more than that it did.
      if (error instanceof CellaError && error.code === 'RUNNER_GONE') throw await this.died;
      throw error;
    } finally {
      task.signal.removeEventListener('abort', stop);
      // Before it is revoked: that it is no good then is no reason to end the executor.
      if (this.state === 'busy') this.#state = { kind: 'busy', turn: task.turn };
      await tokens.revoke(task.turn);
      gate.cut();
    }
  }

  #note(error: unknown): void {
    this.#parts.log(this.id, `its transcript could not be kept: ${error instanceof Error ? error.message : error}`);
  }

  #pingLater(): void {
    const { pingEveryMs, pingMs } = this.#parts.settings;
    this.#ping = setTimeout(async () => {
      try {
        await this.#made.link.ping(pingMs);
        await this.#checkToken();
        if (this.#state.kind !== 'dead') this.#pingLater();
      } catch (cause) {
        this.#die(new CellaError('WORKER_FAILED', 'The executor does not answer any more.', { cause }));
      }
    }, pingEveryMs).unref();
  }

  /** A turn that says nothing, and calls nobody, ends too where its user was disabled, or its token has expired. */
  async #checkToken(): Promise<void> {
    const token = this.#token;
    if (token === undefined) return;
    const { tokens, log } = this.#parts;
    await tokens.look(token).catch((error: unknown) => {
      if (this.#token !== token) return; // its turn has ended meanwhile
      if (error instanceof CellaError && error.code === 'UNAUTHENTICATED') this.#die(error);
      else log(this.id, `its token could not be looked at: ${String(error)}`);
    });
  }

  /** A program that ends closes its connection first: how it ended is told a moment later. */
  async #hungUp(reason: CellaError): Promise<void> {
    if (reason.code === 'RUNNER_GONE') {
      await Promise.race([this.#made.execution.exited.catch(() => {}), delay(EXIT_MS, undefined, { ref: false })]);
    }
    this.#die(reason);
  }

  /** The first reason counts. */
  #die(reason: CellaError): void {
    if (this.#state.kind === 'dead') return;
    this.#state = { kind: 'dead', reason };
    clearTimeout(this.#ping);
    this.#made.link.cut(reason);
    this.#died.resolve(reason);
    this.#closing ??= this.#end();
    void this.#closing.catch((error) => this.#parts.log(this.id, `could not be ended: ${String(error)}`));
  }

  async #close(reason: CellaError): Promise<void> {
    const { graceMs } = this.#parts.settings;
    const { link } = this.#made;
    clearTimeout(this.#ping);
    if (this.#state.kind !== 'dead') await link.shutdown(reason.message, graceMs).catch(() => {}); // it is ended anyway
    this.#die(reason);
    await this.#end();
  }

  async #end(): Promise<void> {
    const { execution, stack } = this.#made;
    execution.kill({ graceMs: this.#parts.settings.graceMs });
    await execution.exited.catch(() => {}); // it never began
    await stack.disposeAsync();
  }
}
