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
  /** Where variables are saved; without it they end with their kernel. */
  readonly durableCheckpoints?: DurableCheckpoints;
}

/** Recoveries in a row without a cell that finished. */
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

  /** How often the kernel was restarted after it had died. */
  get total(): number {
    return this.#total;
  }

  /** Whether no kernel and no cell starts any more. */
  get over(): boolean {
    return this.#stage !== 'open';
  }

  get closed(): boolean {
    return this.#stage === 'closed';
  }

  /** It is about to be closed: what has not started does not start any more. */
  abandon(): void {
    if (this.#stage === 'open') this.#stage = 'abandoned';
  }

  close(): void {
    this.#stage = 'closed';
  }

  /** The live kernel; starts one if there is none. */
  ensureRunning(): Promise<Kernel> {
    if (this.over) return Promise.reject(sessionClosed());
    const { kernel } = this.#process;
    if (!this.#starting && kernel && !kernel.dead) return Promise.resolve(kernel);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  /** Resolves when a start that is under way has succeeded or failed. */
  async settled(): Promise<void> {
    await this.#starting?.catch(() => {});
  }

  /** A cell has finished, or the variables were replaced: earlier deaths no longer count. */
  resetCrashes(): void {
    this.#consecutiveCrashes = 0;
  }

  async #start(): Promise<Kernel> {
    if (this.#consecutiveCrashes >= MOST_RECOVERIES) throw this.#crashLoop();
    await this.#process.reserve();
    try {
      return await this.#startOnce();
    } catch (error) {
      // A template that was just killed is not known to be dead before somebody uses it.
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
      // Snapshots of the old environment do not exist in the next one.
      kernelProcess.checkpoints.markAllGone(ENDED);
      kernelProcess.transaction.forget();
      const opened = await environments.open();
      first = opened.first;
      fresh = opened.fresh;
      kernelProcess.useEnvironment(new SharedEnvironment(opened.environment));
    }
    const shared = kernelProcess.requireShared;
    // Read while the kernel starts. A key that had no folder has no saves.
    const resumes = !fresh && kernelProcess.startFrom.kind !== 'empty';
    if (durableCheckpoints && resumes) this.#saves = this.#autosave.settled().then(() => durableCheckpoints.saves());
    // The death of the kernel rolls an open transaction back.
    const snapshot = kernelProcess.transaction.forget();
    if (snapshot !== undefined && kernelProcess.cause) return await this.#rollBack(shared, snapshot);
    const link = await (first ?? shared.launch(environments.launchOptions()));
    return await this.#startFromSave(link, resumes);
  }

  /** Starts from the snapshot of when the transaction began. */
  async #rollBack(shared: SharedEnvironment, snapshot: number): Promise<Kernel> {
    const { cause } = this.#process;
    const link = await shared.launch({ env: {}, from: { snapshot, keep: false } });
    const kernel = await this.#process.attach(link, undefined, { fromSnapshot: true });
    const restored = namesIn(await kernel.introspect('variables', {}));
    if (cause) kernel.announce({ recovered: { cause, savedAgoMs: 0, restored, lost: [] } });
    return kernel;
  }

  /** Starts a fresh kernel and loads the last save, if there is one. */
  async #startFromSave(link: KernelConnection, resumes: boolean): Promise<Kernel> {
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
    const lost = resumes ? await this.#unreadable() : [];
    const notice = cause ? { recovered: { cause, restored: [], lost } } : { woken: { restored: [], lost } };
    return await kernelProcess.attach(link, cause || lost.length > 0 ? notice : undefined);
  }

  /** If all saves are damaged, the next result says so. */
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

/** The names in a kernel's list of variables. The kernel may be hostile. */
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

/** Tries the saves one by one: one that is damaged, or kills its kernel, must not block the session. */
async function restoreLastSave(
  kernelProcess: KernelProcess,
  link: KernelConnection,
  { saves, durableCheckpoints, environments }: SaveSources,
): Promise<Kernel> {
  const shared = kernelProcess.requireShared;
  const { cause } = kernelProcess;
  let kernel = await kernelProcess.attach(link, undefined, { restoring: true });
  let notice: Woken | undefined;
  try {
    for (const save of saves) {
      kernelProcess.expectDeath();
      const savedAgoMs = durableCheckpoints.age(save);
      try {
        const { restored, lost } = await durableCheckpoints.read(kernel, save);
        const all = [...lost, ...save.lost.filter(({ name }) => !lost.some((one) => one.name === name))];
        notice = { savedAgoMs, restored, lost: all };
        kernelProcess.executions = Math.max(kernelProcess.executions, save.execution);
        break;
      } catch (error) {
        const unusable = isKernelFault(error) || (error instanceof CellaError && error.code === 'CHECKPOINT_DAMAGED');
        if (!unusable) throw error;
        const reason = `it could not be loaded: ${error.message}`;
        notice ??= { savedAgoMs, restored: [], lost: [...save.saved.map((name) => ({ name, reason })), ...save.lost] };
        if (kernel.dead) {
          const next = await shared.launch(environments.launchOptions());
          kernel = await kernelProcess.attach(next, undefined, { restoring: true });
        }
      }
    }
    kernelProcess.restored();
  } catch (error) {
    // The next start tries the saves again.
    const death = cause ?? kernel.dead;
    if (death) kernelProcess.recoverFrom(death);
    throw error;
  } finally {
    kernelProcess.expectDeath(false);
  }
  if (notice) kernel.announce(cause ? { recovered: { ...notice, cause } } : { woken: notice });
  if (kernel.dead) kernelProcess.onDeath(kernel, shared, kernel.dead);
  return kernel;
}
