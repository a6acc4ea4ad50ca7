/** Quotas: how much of the server one user may use. */

import type { Quotas } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { serverDefaults } from '../../settings/server-config.ts';
import type { UserStore } from '../access/user-store.ts';

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

  /** The user's limits, with the server's limits as defaults. */
  async limitsOf(userId: string): Promise<Quotas> {
    const user = await this.#users.find(userId);
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
    `This user may have ${limit} ${words[quota]}, has ${has} and asks for ${asked} more.`,
    { details: { quota, limit, used, asked, retryAfterMs } },
  );
}
