/** The quotas of live kernels and their memory, checked before a session starts a kernel or runs code. */

import { KeyedSerialQueue } from '../../lib/queues.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { SessionApi } from '../../session/api.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { ServerContext } from '../http/server-context.ts';
import type { SessionManager } from '../sessions/session-manager.ts';

/** How long an admitted kernel counts before it is seen to be live. */
const STARTING_MS = 30_000;

type SessionLimits = SessionInfo['settings']['limits'];

/** `id`: of its session, or of its own for a fork that has none yet. */
interface CountedKernel {
  readonly id: string | symbol;
  readonly ownerId: string;
  readonly memoryMb: number;
}

export class KernelQuota {
  readonly #quotas: AccessControl['quotas'];
  readonly #sessions: SessionManager;
  /** The time of admission by session id. */
  readonly #starting = new Map<string, number>();
  /** Kernels that forks and changes of limits are about to make. */
  readonly #reserved = new Set<CountedKernel>();
  /** Per user, one check at a time, so that two concurrent requests cannot both take the last place. */
  readonly #checks = new KeyedSerialQueue<string>();

  constructor(quotas: AccessControl['quotas'], sessions: SessionManager) {
    this.#quotas = quotas;
    this.#sessions = sessions;
  }

  /** QUOTA_EXCEEDED if it is one too many. Costs nothing while the kernel of the session is live. */
  async admit(info: SessionInfo): Promise<void> {
    const { id, ownerId, settings } = info;
    if (info.state !== 'hibernated') return void this.#starting.delete(id);
    const kernel = { id, ownerId, memoryMb: settings.limits.memoryMb };
    await this.#admit(kernel, () => this.#starting.set(id, performance.now()));
  }

  /** The same for a new kernel of this owner with the settings of the session. Dispose of it when the fork is there, or has failed. */
  async admitFork({ settings }: SessionInfo, ownerId: string): Promise<Disposable> {
    return await this.#reserve({ id: Symbol('fork'), ownerId, memoryMb: settings.limits.memoryMb });
  }

  /** The same for a live kernel that restarts with other limits. Dispose of it when it has them. */
  async admitChange({ id, ownerId, state }: SessionInfo, { memoryMb }: SessionLimits): Promise<Disposable> {
    return state === 'hibernated' ? new DisposableStack() : await this.#reserve({ id, ownerId, memoryMb });
  }

  async #reserve(kernel: CountedKernel): Promise<Disposable> {
    await this.#admit(kernel, () => this.#reserved.add(kernel));
    return { [Symbol.dispose]: () => void this.#reserved.delete(kernel) };
  }

  /** Calls `count` if there is room. */
  async #admit(kernel: CountedKernel, count: () => unknown): Promise<void> {
    const { ownerId } = kernel;
    const { liveKernels, memoryMb } = await this.#quotas.limitsOf(ownerId);
    if (liveKernels === undefined && memoryMb === undefined) return;
    await this.#checks.run(ownerId, async () => {
      await this.#check(kernel);
      count();
    });
  }

  async #check({ id: own, ownerId, memoryMb }: CountedKernel): Promise<void> {
    const now = performance.now();
    for (const [id, at] of this.#starting) if (now - at > STARTING_MS) this.#starting.delete(id);
    const live = (await this.#sessions.liveOf(ownerId, this.#starting.keys())).filter(
      ({ id, state }) => id !== own && (state !== 'hibernated' || this.#starting.has(id)),
    );
    // From here on it counts because it is live.
    for (const { id, state } of live) if (state !== 'hibernated') this.#starting.delete(id);
    const memory = new Map<string | symbol, number>(live.map(({ id, settings }) => [id, settings.limits.memoryMb]));
    for (const { id, ownerId: whose, memoryMb: coming } of this.#reserved) {
      if (whose === ownerId && id !== own) memory.set(id, Math.max(coming, memory.get(id) ?? 0));
    }
    const used = { liveKernels: memory.size, memoryMb: [...memory.values()].reduce((sum, each) => sum + each, 0) };
    await this.#quotas.check(ownerId, { liveKernels: 1, memoryMb }, used);
  }
}

/** Counts one execution. QUOTA_EXCEEDED if the owner may not run it. */
export async function admitExecution(
  { access, kernels, storageQuota }: Pick<ServerContext, 'access' | 'kernels' | 'storageQuota'>,
  info: SessionInfo,
): Promise<void> {
  const { ownerId } = info;
  // Read once: this is part of every execution.
  const limits = await access.quotas.limitsOf(ownerId);
  await access.quotas.countExecution(ownerId, limits);
  await kernels.admit(info);
  await storageQuota.admit(ownerId, 1, limits);
}

/** The session with its kernel running. QUOTA_EXCEEDED if its owner has too many live kernels. */
export async function openKernel(
  { sessions, kernels }: Pick<ServerContext, 'sessions' | 'kernels'>,
  info: SessionInfo,
): Promise<SessionApi> {
  await kernels.admit(info);
  return await (await sessions.open(info.id)).api();
}
