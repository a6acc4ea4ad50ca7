/**
 * Quotas: how much of the server one user may use. Those of live kernels are checked before a session starts a kernel or runs
 * code.
 */

import { KeyedSerialQueue } from '../../lib/queues.ts';
import type { Quotas } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { SessionApi } from '../../session/api.ts';
import { serverDefaults } from '../../settings/server-config.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { Principal } from '../access/authorization.ts';
import type { UserStore } from '../access/user-store.ts';
import type { ServerContext } from '../http/server-context.ts';
import type { SessionManager } from '../sessions/session-manager.ts';

const MINUTE_MS = 60_000;
/** When to try again: it is unknown when an idle kernel will end or a file will be deleted. */
const LATER_MS = { sessions: MINUTE_MS, liveKernels: 10_000, memoryMb: 10_000, storageBytes: MINUTE_MS } as const;

interface UserQuotasOptions {
  readonly users: Pick<UserStore, 'find'>;
  /** For users that have no limit of their own. */
  readonly defaults?: Quotas | undefined;
  /** Milliseconds that never go back. */
  readonly elapsed?: (() => number) | undefined;
}

/** What a user holds or requests. */
interface ResourceUsage {
  readonly sessions: number;
  readonly liveKernels: number;
  readonly memoryMb: number;
  readonly storageBytes: number;
}

/** QUOTA_EXCEEDED has `details` { quota, limit, used, asked, retryAfterMs }. */
export class UserQuotas {
  readonly #users: UserQuotasOptions['users'];
  readonly #defaults: Quotas;
  readonly #elapsed: () => number;
  /** When the executions of the last minute began, oldest first. */
  readonly #executions = new Map<string, number[]>();

  constructor({ users, defaults = {}, elapsed = () => performance.now() }: UserQuotasOptions) {
    this.#users = users;
    this.#defaults = { ...serverDefaults.quotas, ...defaults };
    this.#elapsed = elapsed;
  }

  /** The user's limits, with the server's limits as defaults. `caller`: of this request, whose user need not be read again. */
  async limitsOf(userId: string, caller?: Principal): Promise<Quotas> {
    const known = caller?.userId === userId && caller.quotas !== undefined;
    const user = known ? caller : await this.#users.find(userId);
    if (!user) throw new CellaError('NOT_FOUND', `There is no user ${JSON.stringify(userId.slice(0, 100))}.`);
    return { ...this.#defaults, ...user.quotas };
  }

  /** Fails if `used` and `asked` together are over a limit. */
  async check(userId: string, asked: Partial<ResourceUsage>, used: Partial<ResourceUsage>): Promise<void> {
    checkLimits(await this.limitsOf(userId), asked, used);
  }

  /** Counts one execution of the last minute, in this server. `limits`: those of the user, if known already. */
  async countExecution(userId: string, limits?: Quotas): Promise<void> {
    const { executionsPerMinute: limit } = limits ?? (await this.limitsOf(userId));
    if (limit === undefined) return void this.#executions.delete(userId);
    const now = this.#elapsed();
    this.#dropOld(now);
    const recent = this.#executions.get(userId) ?? [];
    if (recent.length >= limit) {
      const free = recent[recent.length - limit] ?? now;
      throw exceeded('executionsPerMinute', limit, recent.length, 1, Math.ceil(free - now + MINUTE_MS));
    }
    recent.push(now);
    this.#executions.set(userId, recent);
  }

  #dropOld(now: number): void {
    for (const [userId, times] of this.#executions) {
      const first = times.findIndex((at) => at > now - MINUTE_MS);
      if (first === -1) this.#executions.delete(userId);
      else times.splice(0, first);
    }
  }
}

/** Fails if `used` and `asked` together are over a limit. */
export function checkLimits(limits: Quotas, asked: Partial<ResourceUsage>, used: Partial<ResourceUsage>): void {
  for (const quota of ['sessions', 'liveKernels', 'memoryMb', 'storageBytes'] as const) {
    const [limit, more, before] = [limits[quota], asked[quota] ?? 0, used[quota] ?? 0];
    if (limit !== undefined && more > 0 && before + more > limit) {
      throw exceeded(quota, limit, before, more, LATER_MS[quota]);
    }
  }
}

const words = {
  sessions: 'sessions',
  liveKernels: 'live kernels',
  memoryMb: 'MB of memory for kernels',
  executionsPerMinute: 'executions a minute',
  storageBytes: 'bytes of storage',
  modelUsdPerDay: 'USD a day for models',
  modelTokensPerDay: 'tokens of models a day',
} as const satisfies Record<keyof Quotas, string>;

function exceeded(quota: keyof Quotas, limit: number, used: number, asked: number, retryAfterMs: number): CellaError {
  const has = Number.isFinite(used) ? used : 'more than can be counted';
  return new CellaError(
    'QUOTA_EXCEEDED',
    `The quota of this user is ${limit} ${words[quota]}; ${has} are used, and ${asked} more are needed.`,
    { details: { quota, limit, used, asked, retryAfterMs } },
  );
}

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
  caller?: Principal,
): Promise<void> {
  const { ownerId } = info;
  // Read once: this is part of every execution.
  const limits = await access.quotas.limitsOf(ownerId, caller);
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
