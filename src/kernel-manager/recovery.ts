/**
 * Starts the kernel of one agent key and restores its last save: after a crash, after hibernation, and in another process.
 *
 * A failed start leaves `startFrom` unchanged, so the next attempt starts from the same state. A kernel that dies repeatedly
 * before a cell has ended is not restarted forever.
 */

import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Resumed } from '../protocol/execution-events.ts';
import { type LostVariable, listLost, listRestored, type Manifest } from '../protocol/kernel-state.ts';
import type { Autosave } from './autosave.ts';
import { type DurableCheckpoints, isKernelFault } from './durable-checkpoints.ts';
import {
  ENDED,
  type EnvironmentSource,
  type KernelProcess,
  SharedEnvironment,
  sessionClosed,
} from './kernel-process.ts';

export interface RecoveryOptions {
  readonly agentKey: string;
  readonly environments: EnvironmentSource;
  /** Where variables are saved. Without it they are lost with their kernel. */
  readonly durableCheckpoints?: DurableCheckpoints;
}

/** Recoveries in a row without a finished cell. */
const MOST_RECOVERIES = 3;

export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #process: KernelProcess;
  readonly #autosave: Autosave;
  #starting: Promise<Kernel> | undefined;
  #total = 0;

  constructor(options: RecoveryOptions, kernelProcess: KernelProcess, autosave: Autosave) {
    this.#options = options;
    this.#process = kernelProcess;
    this.#autosave = autosave;
  }

  /** How often the kernel was restarted after it died. */
  get total(): number {
    return this.#total;
  }

  /** The live kernel; starts one if there is none. */
  ensureRunning(): Promise<Kernel> {
    if (this.#process.isOver) return Promise.reject(sessionClosed());
    const { kernel } = this.#process;
    if (!this.#starting && kernel && !kernel.dead) return Promise.resolve(kernel);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  /** The start that is under way. */
  get starting(): Promise<Kernel> | undefined {
    return this.#starting;
  }

  async #start(): Promise<Kernel> {
    if (this.#process.crashes >= MOST_RECOVERIES) throw this.#crashLoop();
    await this.#process.reserve();
    try {
      return await this.#startOnce();
    } catch (error) {
      // The death of a template is noticed only when it is used.
      const retry = error instanceof CellaError && error.code === 'TEMPLATE_FAILED' && !this.#process.isClosed;
      if (retry) {
        await this.#process.release('the process that kernels are forked from has ended', { keepSlot: true });
        return await this.#startOnce();
      }
      this.#process.releaseSlot();
      throw error;
    }
  }

  async #startOnce(): Promise<Kernel> {
    const { environments } = this.#options;
    const kernelProcess = this.#process;
    await kernelProcess.checkFolders();
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
    // Read while the kernel starts. A key without a folder has no saves.
    const resumes = !fresh && kernelProcess.startFrom.kind !== 'empty';
    const saves = resumes ? this.#readSaves() : Promise.resolve([]);
    // If the kernel does not start, nothing awaits them.
    saves.catch(() => {});
    // The death of the kernel rolls an open transaction back.
    const snapshot = kernelProcess.transaction.forget();
    if (snapshot !== undefined && kernelProcess.cause) return await this.#rollBack(shared, snapshot);
    const link = await (first ?? shared.launch(environments.launchOptions()));
    const kernel = await kernelProcess.attach(link, { restoring: true });
    try {
      return await this.#startFromSave(kernel, await saves, resumes);
    } catch (error) {
      // A kernel without its variables must not be found: the next start tries again.
      await kernelProcess.kill();
      throw error;
    }
  }

  async #readSaves(): Promise<Manifest[]> {
    await this.#autosave.settled();
    return (await this.#options.durableCheckpoints?.saves()) ?? [];
  }

  /** Starts from the snapshot taken when the transaction began. */
  async #rollBack(shared: SharedEnvironment, snapshot: number): Promise<Kernel> {
    const { cause } = this.#process;
    const link = await shared.launch({ env: {}, from: { snapshot, keep: false } });
    const kernel = await this.#process.attach(link, { fromSnapshot: true });
    // Only for the notice: the code may have left objects that keep the kernel from answering.
    const variables = await kernel.requests.introspect('variables', {}).catch(() => []);
    const restored = listRestored(namesIn(variables));
    if (cause) kernel.announce({ recovered: { cause, savedAgoMs: 0, ...restored, lost: [] } });
    return kernel;
  }

  /** Loads the last save into a fresh kernel, if there is one. */
  async #startFromSave(kernel: Kernel, saves: readonly Manifest[], resumes: boolean): Promise<Kernel> {
    const kernelProcess = this.#process;
    const { cause } = kernelProcess;
    if (cause) {
      kernelProcess.crashes++;
      this.#total++;
    }
    const { durableCheckpoints, environments } = this.#options;
    if (durableCheckpoints && saves.length > 0)
      return await restoreLastSave(kernelProcess, kernel, { saves, durableCheckpoints, environments });
    const lost = resumes ? await this.#unreadable() : [];
    const names = { restored: [], ...listLost(lost) };
    const notice = cause ? { recovered: { cause, ...names } } : { resumed: names };
    if (cause || lost.length > 0) kernel.announce(notice);
    kernelProcess.restored();
    return kernel;
  }

  /** If all saves are damaged, the next result says so. */
  async #unreadable(): Promise<LostVariable[]> {
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

interface SaveSources {
  /** Newest first. */
  readonly saves: readonly Manifest[];
  readonly durableCheckpoints: DurableCheckpoints;
  readonly environments: EnvironmentSource;
}

/** Tries the saves one by one: a save that is damaged, or kills its kernel, must not block the session. */
async function restoreLastSave(
  kernelProcess: KernelProcess,
  started: Kernel,
  { saves, durableCheckpoints, environments }: SaveSources,
): Promise<Kernel> {
  const shared = kernelProcess.requireShared;
  const { cause } = kernelProcess;
  let kernel = started;
  let notice: Resumed | undefined;
  try {
    for (const save of saves) {
      kernelProcess.expectDeath();
      const savedAgoMs = durableCheckpoints.age(save);
      try {
        const { lost, moreLost = 0, ...restored } = await durableCheckpoints.read(kernel, save);
        const known = new Set(lost.map(({ name }) => name));
        const others = save.lost.filter(({ name }) => !known.has(name));
        notice = { savedAgoMs, ...restored, ...listLost([...lost, ...others], moreLost + (save.moreLost ?? 0)) };
        kernelProcess.executions = Math.max(kernelProcess.executions, save.execution);
        break;
      } catch (error) {
        const unusable = isKernelFault(error) || (error instanceof CellaError && error.code === 'CHECKPOINT_DAMAGED');
        if (!unusable) throw error;
        const reason = `it could not be loaded: ${error.message}`;
        const lost = [...save.saved.map((name) => ({ name, reason })), ...save.lost];
        const more = (save.moreSaved ?? 0) + (save.moreLost ?? 0);
        notice ??= { savedAgoMs, restored: [], ...listLost(lost, more) };
        if (kernel.dead) {
          const next = await shared.launch(environments.launchOptions());
          kernel = await kernelProcess.attach(next, { restoring: true });
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
  if (notice) kernel.announce(cause ? { recovered: { ...notice, cause } } : { resumed: notice });
  if (kernel.dead) kernelProcess.onDeath(kernel, shared, kernel.dead);
  return kernel;
}
