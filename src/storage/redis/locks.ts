/**
 * One holder for each agent key: a key that names it and expires unless the holder renews it. The lock of a process that
 * ended on this machine is free at once, as everybody here can see that it has.
 */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { AcquireOptions, Lock, LockHolder, Locks } from '../contract.ts';
import { HeldLock } from '../held-lock.ts';
import { look, newHolder } from '../identity.ts';
import { aborted, busy, ownCommand } from '../lock-words.ts';
import { quoted } from './keys.ts';
import type { Place } from './place.ts';
import { asTextIfAny } from './reply.ts';
import { script } from './script.ts';

const LEASE_MS = 30_000;
const RENEW_MS = 5000;
/** How often a lock that others hold is looked at. */
const LOOK_MS = 25;

const Grip = z.object({
  grip: z.string(),
  holder: z.string(),
  pid: z.number(),
  host: z.string(),
  command: z.string(),
  since: z.number(),
});
type Grip = z.infer<typeof Grip>;

/** Takes it where it is free or still as the caller saw it (ARGV[2], a dead one's); else gives the one that has it. */
const TAKE = script(`
local now = redis.call('GET', KEYS[1])
if now and now ~= ARGV[2] and now ~= ARGV[1] then return now end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return false
`);

const RELEASE = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`);

export class RedisLocks implements Locks {
  readonly #place: Place;
  readonly #holder = newHolder();
  readonly #held = new Map<HeldLock, { readonly key: string; readonly value: string }>();
  #renewing: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(place: Place) {
    this.#place = place;
  }

  async acquire(agentKey: string, { waitMs = 0, signal }: AcquireOptions = {}): Promise<Lock> {
    const deadline = performance.now() + waitMs;
    const key = this.#keyOf(agentKey);
    for (;;) {
      if (signal?.aborted) throw aborted(agentKey, signal.reason);
      const value = this.#newGrip();
      const other = await this.#take(key, value);
      if (!other) return this.#keep(agentKey, key, value, signal);
      const left = deadline - performance.now();
      if (left <= 0) throw busy(agentKey, other);
      await delay(Math.min(left, LOOK_MS), undefined, signal ? { signal } : {}).catch((cause) => {
        throw aborted(agentKey, cause);
      });
    }
  }

  async holder(agentKey: string): Promise<LockHolder | undefined> {
    const text = asTextIfAny(await this.#place.link.send('GET', this.#keyOf(agentKey)));
    const grip = text === undefined ? undefined : parse(text);
    if (!grip || look(grip.holder) === 'dead') return undefined;
    return { pid: grip.pid, host: grip.host, since: grip.since };
  }

  /** Lets go of all that were acquired here. Where the server is gone, they end by themselves. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#renewing);
    const releases = [...this.#held.keys()].map((lock) => lock.release());
    await Promise.allSettled(releases);
  }

  /** The holder where there is one that lives; else the lock is ours. */
  async #take(key: string, value: string): Promise<Grip | undefined> {
    const { link } = this.#place;
    const other = asTextIfAny(await link.run(TAKE, [key], [value, '', String(LEASE_MS)]));
    if (other === undefined) return undefined;
    const grip = parse(other);
    if (grip && look(grip.holder) !== 'dead') return grip;
    const next = asTextIfAny(await link.run(TAKE, [key], [value, other, String(LEASE_MS)]));
    return next === undefined ? undefined : (parse(next) ?? grip);
  }

  async #keep(agentKey: string, key: string, value: string, signal: AbortSignal | undefined): Promise<Lock> {
    const lock: HeldLock = new HeldLock(async () => {
      await this.#place.link.run(RELEASE, [key], [value]);
      this.#held.delete(lock);
    });
    this.#held.set(lock, { key, value });
    this.#renewing ??= setInterval(() => void this.#renew(), RENEW_MS).unref();
    if (!signal?.aborted && !this.#closed) return lock;
    await lock.release();
    if (signal?.aborted) throw aborted(agentKey, signal.reason);
    throw new CellaError('STORAGE_FAILED', `Cannot use ${this.#place.link.address.where}: the storage is closed.`);
  }

  /** A server that is away is asked again the next time. A lock that somebody else has got meanwhile is lost. */
  async #renew(): Promise<void> {
    for (const [lock, { key, value }] of this.#held) {
      if (!lock.held) continue;
      const other = await this.#place.link.run(TAKE, [key], [value, '', String(LEASE_MS)]).catch(() => null);
      if (other === null) continue;
      lock.lose();
      this.#held.delete(lock);
    }
  }

  #newGrip(): string {
    const since = Math.trunc(this.#place.clock());
    const grip: Grip = {
      grip: randomUUID(),
      holder: this.#holder,
      pid: process.pid,
      host: hostname(),
      command: ownCommand(),
      since,
    };
    return JSON.stringify(grip);
  }

  #keyOf(agentKey: string): string {
    return this.#place.keys.of('lock', quoted(agentKey));
  }
}

function parse(text: string): Grip | undefined {
  try {
    return Grip.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined; // nobody's that we know: it may be taken
  }
}
