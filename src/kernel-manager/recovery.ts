/**
 * Starts the kernel of one agent key, and restores its last save: after a crash, after hibernation, and in another process.
 *
 * A start that fails leaves `startFrom` as it was, so the next attempt starts from the same. A kernel that dies again and
 * again before a cell has ended is not restarted forever.
 */

import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Woken } from '../protocol/execution-events.ts';
import type { LostName, Manifest } from '../protocol/kernel-state.ts';
import type { Autosave } from './autosave.ts';
import { type DurableCheckpoints, isKernelFault } from './durable-checkpoints.ts';
import { ENDED, type KernelProcess } from './kernel-process.ts';
import { type EnvironmentSource, SharedEnvironment } from './shared-environment.ts';

export interface RecoveryOptions {
  readonly agentKey: string;
  readonly environments: EnvironmentSource;
  /** Where names are saved; without it they end with their kernel. */
  readonly durableCheckpoints?: DurableCheckpoints;
}

/** Recoveries in a row without a cell that ended. */
const MOST_RECOVERIES = 3;

export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #process: KernelProcess;
  readonly #autosave: Autosave;
  #starting: Promise<Kernel> | undefined;
  #saves: Promise<Manifest[]> = Promise.resolve([]);
  #consecutiveCrashes = 0;
  #total = 0;
  #stage: 'open' | 'abandoned' | 'closed' = 'open';

  constructor(options: RecoveryOptions, kernelProcess: KernelProcess, autosave: Autosave) {
    this.#options = options;
    this.#process = kernelProcess;
    this.#autosave = autosave;
  }

  /** How often the kernel was brought back after it had died. */
  get total(): number {
    return this.#total;
  }

  /** Whether no kernel starts any more, and no cell begins. */
  get over(): boolean {
    return this.#stage !== 'open';
  }

  get closed(): boolean {
    return this.#stage === 'closed';
  }

  /** It is about to be closed: whatever has not begun does not begin any more. */
  abandon(): void {
    if (this.#stage === 'open') this.#stage = 'abandoned';
  }

  close(): void {
    this.#stage = 'closed';
  }

  /** The kernel that lives, started anew where the last one ended. */
  ensureRunning(): Promise<Kernel> {
    if (this.over) return Promise.reject(sessionClosed());
    const { kernel } = this.#process;
    if (!this.#starting && kernel && !kernel.dead) return Promise.resolve(kernel);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  /** Resolves when a start that is on its way has come to its end; how, whoever waits for that kernel is told. */
  async settled(): Promise<void> {
    await this.#starting?.catch(() => {});
  }

  /** A cell has ended, or the names are others: deaths from before do not count any more. */
  resetCrashes(): void {
    this.#consecutiveCrashes = 0;
  }

  async #start(): Promise<Kernel> {
    if (this.#consecutiveCrashes >= MOST_RECOVERIES) throw this.#crashLoop();
    await this.#process.reserve();
    try {
      return await this.#startOnce();
    } catch (error) {
      // A template that was killed a moment ago is not known to be dead before somebody tries it.
      const retry = error instanceof CellaError && error.code === 'TEMPLATE_FAILED' && !this.closed;
      if (retry) {
        await this.#process.release('the process that kernels are forked from has ended', { keepSlot: true });
        return await this.#startOnce();
      }
      this.#process.releaseSlot();
      throw error;
    }
  }

  async #startOnce(): Promise<Kernel> {
    const { environments, durableCheckpoints } = this.#options;
    const kernelProcess = this.#process;
    let first: Promise<KernelConnection> | undefined;
    let fresh = false;
    if (!kernelProcess.shared?.environment.alive) {
      await kernelProcess.releaseEnvironment();
      // Numbers begin anew in the next one.
      kernelProcess.checkpoints.markAllGone(ENDED);
      kernelProcess.transaction.forget();
      const opened = await environments.open();
      first = opened.first;
      fresh = opened.fresh;
      kernelProcess.useEnvironment(new SharedEnvironment(opened.enclosure));
    }
    const shared = kernelProcess.requireShared;
    // Looked for while the kernel starts. An agent that had no folder has no saves.
    const comesBack = !fresh && kernelProcess.startFrom.kind !== 'empty';
    if (durableCheckpoints && comesBack) this.#saves = this.#autosave.settled().then(() => durableCheckpoints.saves());
    // A transaction that nobody decided is rolled back by the death of its kernel.
    const snapshot = kernelProcess.transaction.forget();
    if (snapshot !== undefined && kernelProcess.cause) return await this.#rollBack(shared, snapshot);
    const link = await (first ?? shared.launch(environments.launchOptions()));
    return await this.#startFromSave(link, comesBack);
  }

  /** Everything is as it was when the transaction began. */
  async #rollBack(shared: SharedEnvironment, snapshot: number): Promise<Kernel> {
    const { cause } = this.#process;
    const link = await shared.launch({ env: {}, from: { twin: snapshot, keep: false } });
    const kernel = await this.#process.attach(link, undefined, { fromSnapshot: true });
    const restored = namesIn(await kernel.introspect('variables', {}));
    if (cause) kernel.notice = { recovered: { cause, savedAgoMs: 0, restored, lost: [] } };
    return kernel;
  }

  /** A fresh kernel, with the last save in it where there is one to come back to. */
  async #startFromSave(link: KernelConnection, comesBack: boolean): Promise<Kernel> {
    const kernelProcess = this.#process;
    const { cause } = kernelProcess;
    const saves = await this.#saves;
    this.#saves = Promise.resolve([]);
    if (cause) {
      this.#consecutiveCrashes++;
      this.#total++;
    }
    const { durableCheckpoints, environments } = this.#options;
    if (durableCheckpoints && saves.length > 0)
      return await restoreLastSave(kernelProcess, link, { saves, durableCheckpoints, environments });
    const lost = comesBack ? await this.#unreadable() : [];
    const told = cause ? { recovered: { cause, restored: [], lost } } : { woken: { restored: [], lost } };
    return await kernelProcess.attach(link, cause || lost.length > 0 ? told : undefined);
  }

  /** An agent whose saves are all damaged must hear why it has no names. */
  async #unreadable(): Promise<LostName[]> {
    const all = (await this.#options.durableCheckpoints?.unreadable()) ?? [];
    return all.map(({ id, reason }) => ({ name: '*', reason: `the checkpoint ${id} cannot be read: ${reason}` }));
  }

  #crashLoop(): CellaError {
    const { cause } = this.#process;
    return new CellaError(
      'KERNEL_CRASH_LOOP',
      `The kernel of ${this.#options.agentKey} died ${MOST_RECOVERIES + 1} times without finishing a cell. ${cause?.message ?? ''}`.trim(),
      { details: { ...cause } },
    );
  }
}

/** The names of a list of variables, as a kernel tells it: hostile input like any other. */
function namesIn(variables: unknown): string[] {
  if (!Array.isArray(variables)) return [];
  return variables.flatMap(({ name }) => (typeof name === 'string' ? [name] : []));
}

export function sessionClosed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'The session was closed.');
}

interface SaveSources {
  /** Newest first. */
  readonly saves: readonly Manifest[];
  readonly durableCheckpoints: DurableCheckpoints;
  readonly environments: EnvironmentSource;
}

/** Tries the saves one by one: one that is damaged, or ends its kernel, must not keep the agent from going on. */
async function restoreLastSave(
  kernelProcess: KernelProcess,
  link: KernelConnection,
  { saves, durableCheckpoints, environments }: SaveSources,
): Promise<Kernel> {
  const shared = kernelProcess.requireShared;
  const before = kernelProcess.startFrom;
  const { cause } = kernelProcess;
  let kernel = await kernelProcess.attach(link, undefined);
  let told: Woken | undefined;
  try {
    for (const save of saves) {
      kernelProcess.expectDeath();
      const savedAgoMs = durableCheckpoints.age(save);
      try {
        const { restored, lost } = await durableCheckpoints.read(kernel, save);
        const all = [...lost, ...save.lost.filter(({ name }) => !lost.some((one) => one.name === name))];
        told = { savedAgoMs, restored, lost: all };
        kernelProcess.executions = Math.max(kernelProcess.executions, save.execution);
        break;
      } catch (error) {
        const unusable = isKernelFault(error) || (error instanceof CellaError && error.code === 'CHECKPOINT_DAMAGED');
        if (!unusable) throw error;
        const reason = `it could not be loaded: ${error.message}`;
        told ??= { savedAgoMs, restored: [], lost: [...save.saved.map((name) => ({ name, reason })), ...save.lost] };
        if (kernel.dead)
          kernel = await kernelProcess.attach(await shared.launch(environments.launchOptions()), undefined);
      }
    }
  } catch (error) {
    // Whoever tries next begins with the saves again.
    const death = cause ?? kernel.dead;
    kernelProcess.startFrom = death ? { kind: 'died', cause: death } : before;
    throw error;
  } finally {
    kernelProcess.expectDeath(false);
  }
  if (told) kernel.notice = cause ? { recovered: { ...told, cause } } : { woken: told };
  if (kernel.dead) kernelProcess.onDeath(kernel, shared, kernel.dead);
  return kernel;
}
