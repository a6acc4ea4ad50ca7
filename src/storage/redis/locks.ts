/**
 * One owner per agent key: a Redis key that names the owner, and expires unless the owner renews it. The lock of a process
 * that has ended on this machine is free at once, because every process here can see that it has ended.
 *
 * Every lock has a token, larger than all earlier ones, which Redis keeps after the lock expires. With it, Redis refuses
 * writes of an owner that has lost its lock. Only the clock of the Redis server decides when a lock expires; an owner
 * only measures the time since its last renewal.
 */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { inSlices } from '../../lib/event-loop.ts';
import { newProcessIdentity, processState } from '../../lib/process-identity.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AcquireLockOptions, Lock, LockOwner, Locks } from '../contract.ts';
import { LockHandle, leaseLost, lockAborted, lockBusy, ownCommand } from '../lock-handle.ts';
import {
  asText,
  asTextIfAny,
  quoted,
  type RedisArgument,
  type RedisCommands,
  type RedisContext,
  type RedisReply,
  type Script,
  script,
} from './redis-context.ts';

/** How many times a lock is renewed during its lease. */
const RENEWALS = 6;
/** After this part of the lease without renewal, the lock counts as uncertain. */
const UNCERTAIN_AFTER = 0.6;
/** How often to check a lock that another owner holds. */
const LOOK_MS = 25;

/** Stored: the names `grip` (the id of the lock) and `holder` (its owner) stay, so that old data opens. */
const LockValue = z.object({
  grip: z.string(),
  holder: z.string(),
  pid: z.number(),
  host: z.string(),
  command: z.string(),
  since: z.number(),
});
type LockValue = z.infer<typeof LockValue>;

/**
 * Takes the lock if it is free, or still has the value that the caller saw (ARGV[2], of a dead process), and returns its
 * token; else returns the current value. KEYS: lock, token, and the count of all tokens.
 */
const TAKE = script(`
local now = redis.call('GET', KEYS[1])
if now and now ~= ARGV[2] then return now end
local token = string.format('%.0f', redis.call('INCR', KEYS[3]))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[2], token)
return {token}
`);

/** Returns 0 if another process has or had the lock since. If the lock only expired, it is acquired again. */
const RENEW = script(`
local now = redis.call('GET', KEYS[1])
if (now and now ~= ARGV[1]) or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 1
`);

/** Commands that are sent later with this token have no effect. */
const RELEASE = script(`
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[2])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);

interface HeldLease {
  readonly keys: readonly [lock: string, token: string];
  readonly value: string;
  readonly token: string;
  /** The time of the last successful renewal, by a monotonic clock. */
  provenAt: number;
}

export class RedisLocks implements Locks {
  readonly #context: RedisContext;
  readonly #leaseMs: number;
  readonly id = newProcessIdentity();
  readonly #held = new Map<LockHandle, HeldLease>();
  #renewing: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(context: RedisContext, leaseMs: number) {
    this.#context = context;
    this.#leaseMs = leaseMs;
  }

  async acquire(
    agentKey: string,
    { waitMs = 0, signal, command = ownCommand() }: AcquireLockOptions = {},
  ): Promise<Lock> {
    const deadline = performance.now() + waitMs;
    for (;;) {
      if (signal?.aborted) throw lockAborted(agentKey, signal.reason);
      const provenAt = performance.now();
      const value = this.#newLockValue(command);
      const taken = await this.#take(agentKey, value);
      if ('token' in taken) return this.#keep(agentKey, { ...taken, value, provenAt }, signal);
      const left = deadline - performance.now();
      if (left <= 0) throw lockBusy(agentKey, taken);
      await delay(Math.min(left, LOOK_MS), undefined, signal ? { signal } : {}).catch((cause) => {
        throw lockAborted(agentKey, cause);
      });
    }
  }

  async ownerOf(agentKey: string): Promise<LockOwner | undefined> {
    const text = asTextIfAny(await this.#context.redis.send('GET', this.#keysOf(agentKey)[0]));
    const value = text === undefined ? undefined : parseLockValue(text);
    if (!value || processState(value.holder) === 'dead') return undefined;
    return { id: value.holder, pid: value.pid, host: value.host, since: value.since };
  }

  /** The fencing token for writes under this lock. */
  fenceOf(lock: Lock): Fence {
    const held = [...this.#held].findLast(([{ key, held: is }]) => key === lock.key && is);
    if (!held) throw leaseLost(lock.key);
    const [own, { keys, token }] = held;
    return {
      key: keys[1],
      token,
      onLost: () => {
        this.#lose(own);
        return leaseLost(lock.key);
      },
    };
  }

  /** Releases all locks that were acquired here. Without a server they expire. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#renewing);
    const releases: Promise<void>[] = [];
    // A lock that is not released expires.
    for await (const lock of inSlices([...this.#held.keys()])) releases.push(lock.release().catch(() => {}));
    await Promise.all(releases);
  }

  /** Returns the live owner, if there is one; else acquires the lock. */
  async #take(agentKey: string, value: string): Promise<LockValue | Pick<HeldLease, 'keys' | 'token'>> {
    const keys = this.#keysOf(agentKey);
    const ask = async (seen: string) => {
      const all = [...keys, this.#context.keys.of('locks-count')];
      const reply = await this.#context.redis.run(TAKE, all, [value, seen, String(this.#leaseMs)]);
      return Array.isArray(reply) ? { keys, token: asText(reply[0]) } : asText(reply);
    };
    const first = await ask('');
    if (typeof first === 'object') return first;
    const found = parseLockValue(first);
    if (found && processState(found.holder) !== 'dead') return found;
    const second = await ask(first);
    if (typeof second === 'object') return second;
    const next = parseLockValue(second) ?? found;
    // The value was unreadable, and another unreadable value has replaced it.
    if (!next)
      throw new CellaError('STORAGE_FAILED', `The lock of agent key ${JSON.stringify(agentKey)} cannot be read.`);
    return next;
  }

  async #keep(agentKey: string, held: HeldLease, signal: AbortSignal | undefined): Promise<Lock> {
    const { keys, value, token } = held;
    const lock: LockHandle = new LockHandle(agentKey, async () => {
      await this.#context.redis.run(RELEASE, keys, [value, token]);
      this.#held.delete(lock);
    });
    this.#held.set(lock, held);
    this.#renewing ??= setInterval(() => void this.#renewAll(), this.#leaseMs / RENEWALS).unref();
    if (!signal?.aborted && !this.#closed) return lock;
    await lock.release();
    if (signal?.aborted) throw lockAborted(agentKey, signal.reason);
    throw new CellaError('STORAGE_FAILED', `Cannot use ${this.#context.redis.address.where}: the storage is closed.`);
  }

  /** Sent in slices: a server may hold thousands of locks. */
  async #renewAll(): Promise<void> {
    const renewals: Promise<void>[] = [];
    for await (const [lock, held] of inSlices([...this.#held])) renewals.push(this.#renew(lock, held));
    await Promise.all(renewals);
  }

  /** If the server does not answer, the next renewal tries again. If another has the lock, it is lost. */
  async #renew(lock: LockHandle, held: HeldLease): Promise<void> {
    if (lock.state === 'released') return;
    const now = performance.now();
    // This process may have been stopped. Watchers see that it is uncertain only if the server does not answer.
    const late = now - held.provenAt > this.#leaseMs * UNCERTAIN_AFTER;
    if (late) lock.suspect();
    const args = [held.value, held.token, String(this.#leaseMs)];
    const kept = await this.#context.redis.run(RENEW, held.keys, args).catch(() => null);
    if (kept === null) {
      if (late) lock.setState('uncertain');
      return;
    }
    if (kept === 0) return this.#lose(lock);
    held.provenAt = Math.max(held.provenAt, now);
    lock.setState('held');
  }

  #lose(lock: LockHandle): void {
    this.#held.delete(lock);
    lock.setState('lost');
  }

  #newLockValue(command: string): string {
    const since = Math.trunc(this.#context.clock());
    const value: LockValue = {
      grip: randomUUID(),
      holder: this.id,
      pid: process.pid,
      host: hostname(),
      command,
      since,
    };
    return JSON.stringify(value);
  }

  #keysOf(agentKey: string): readonly [lock: string, token: string] {
    const { keys } = this.#context;
    return [keys.of('lock', quoted(agentKey)), keys.of('lock-token', quoted(agentKey))];
  }
}

function parseLockValue(text: string): LockValue | undefined {
  try {
    return LockValue.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined; // not a value that Cella wrote: the lock may be taken
  }
}

interface Fence {
  /** The Redis key of the newest token for this lock. */
  readonly key: string;
  readonly token: string;
  /** Called if another process has the lock; returns the error to fail with. */
  readonly onLost: () => CellaError;
}

/** The error of the scripts for a token that is not the newest. */
const REFUSAL = 'FENCED';

/** The last key and the last argument belong to the fence. The wrapped script does not see them. */
const CHECK = `
if redis.call('GET', table.remove(KEYS)) ~= table.remove(ARGV) then
  return redis.error_reply('${REFUSAL} another one has the lock')
end
`;

/** Commands that change what others can see. The bytes of a chunk are not among them: a script publishes them. */
const WRITES: ReadonlySet<RedisArgument | undefined> = new Set(['UNLINK', 'HDEL']);
const COMMAND = script('return redis.call(unpack(ARGV))');

/**
 * Commands under a lock. The server compares the lock's token with the newest one in the same step in which it writes,
 * so an owner that was stopped for too long changes nothing, however late its command arrives.
 */
export class FencedCommands implements RedisCommands {
  readonly #commands: RedisCommands;
  readonly #fence: Fence;

  constructor(commands: RedisCommands, fence: Fence) {
    this.#commands = commands;
    this.#fence = fence;
  }

  get address(): RedisCommands['address'] {
    return this.#commands.address;
  }

  send(...args: RedisArgument[]): Promise<RedisReply> {
    return WRITES.has(args[0]) ? this.run(COMMAND, [], args) : this.#commands.send(...args);
  }

  async run(given: Script, keys: readonly string[], args: readonly RedisArgument[]): Promise<RedisReply> {
    if (given.readOnly) return await this.#commands.run(given, keys, args);
    const { key, token, onLost } = this.#fence;
    try {
      return await this.#commands.run(checked(given), [...keys, key], [...args, token]);
    } catch (error) {
      if (error instanceof CellaError && error.details.reason === REFUSAL) throw onLost();
      throw error;
    }
  }
}

const known = new WeakMap<Script, Script>();

function checked(given: Script): Script {
  const made = known.get(given) ?? script(`${CHECK}${given.text}`);
  known.set(given, made);
  return made;
}
