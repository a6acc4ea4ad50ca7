/**
 * The connection to a Redis server. A call waits briefly while a connection is being made, and fails as soon as there is none.
 * Calls in flight when the connection is lost fail and are not sent again. The connection is restored automatically. `cella
 * doctor` uses this to find server settings that would lose data.
 */

import type * as Redis from '@redis/client';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import {
  asList,
  asText,
  parseAddress,
  type RedisAddress,
  type RedisArgument,
  type RedisCommands,
  type RedisReply,
  type Script,
} from './redis-context.ts';

const CONNECT_WAIT_MS = 900;

export class RedisConnection implements RedisCommands {
  readonly address: RedisAddress;
  readonly #redis: typeof Redis;
  readonly #watchdog: ResponseWatchdog;
  readonly #waiting = new Set<(problem: CellaError | undefined) => void>();
  readonly #pending = new Set<Promise<RedisReply>>();
  #client: RedisClient;
  #closed = false;

  private constructor(redis: typeof Redis, address: RedisAddress) {
    this.address = address;
    this.#redis = redis;
    this.#watchdog = new ResponseWatchdog(
      () => newClient(redis, address),
      () => this.#startOver(),
    );
    this.#client = this.#connect();
  }

  static async open(address: RedisAddress): Promise<RedisConnection> {
    const connection = new RedisConnection(await loadRedis(), address);
    try {
      // A connection alone proves nothing: the server may require a password, or hang.
      await connection.send('PING');
      return connection;
    } catch (error) {
      await connection.close();
      throw error;
    }
  }

  send(...args: RedisArgument[]): Promise<RedisReply> {
    return this.#underWay(() => this.#send(args));
  }

  run({ text, sha1 }: Script, keys: readonly string[], args: readonly RedisArgument[]): Promise<RedisReply> {
    const rest = [String(keys.length), ...keys, ...args];
    return this.#underWay(async () => {
      try {
        return await this.#send(['EVALSHA', sha1, ...rest]);
      } catch (error) {
        // The server forgets scripts when it restarts.
        if (!(error instanceof CellaError && error.details?.reason === 'NOSCRIPT')) throw error;
        return await this.#send(['EVAL', text, ...rest]);
      }
    });
  }

  /** Completes earlier calls, or fails within a second. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#pending);
    this.#client.destroy();
  }

  async #underWay(work: () => Promise<RedisReply>): Promise<RedisReply> {
    if (this.#closed) {
      throw new CellaError('STORAGE_FAILED', `Cannot use Redis at ${this.address.where}: the storage is closed.`);
    }
    this.#client.ref();
    const reply = work();
    this.#pending.add(reply);
    try {
      return await reply;
    } finally {
      this.#pending.delete(reply);
      // An unused connection does not keep the process alive.
      if (this.#pending.size === 0) this.#client.unref();
    }
  }

  async #send(args: RedisArgument[]): Promise<RedisReply> {
    if (!this.#client.isReady) await this.#ready();
    try {
      return await this.#watchdog.watch(this.#client.sendCommand<RedisReply>(args));
    } catch (cause) {
      throw this.#failure(cause);
    }
  }

  #connect(): RedisClient {
    const client = newClient(this.#redis, this.address);
    client.on('ready', () => this.#tell(undefined));
    client.on('error', (error) => this.#tell(this.#failure(error)));
    client.connect().catch(() => {}); // reported by `error`
    return client;
  }

  #startOver(): void {
    const gone = this.#client;
    this.#client = this.#connect();
    gone.destroy();
  }

  /** Resolves once connected; rejects with the reason once it is known that there is no connection. */
  async #ready(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<CellaError | undefined>();
    this.#waiting.add(resolve);
    const giveUp = () => resolve(unreachable(this.address.where, 'no answer'));
    // Reads what arrived while this process was busy first.
    const late = setTimeout(() => setImmediate(giveUp), CONNECT_WAIT_MS);
    try {
      const problem = this.#client.isReady ? undefined : await promise;
      if (problem) throw problem;
    } finally {
      clearTimeout(late);
      this.#waiting.delete(resolve);
    }
  }

  #tell(problem: CellaError | undefined): void {
    for (const settle of this.#waiting) settle(problem);
  }

  #failure(cause: unknown): CellaError {
    const { where } = this.address;
    return cause instanceof this.#redis.ErrorReply
      ? refused(where, cause.message)
      : unreachable(where, reasonOf(cause));
  }
}

const CONNECT_MS = 800;
const RECONNECT_MS = 100;

type RedisClient = ReturnType<typeof newClient>;

/** It takes a while to load, and most processes never need it. */
async function loadRedis(): Promise<typeof Redis> {
  return await import('@redis/client');
}

function newClient({ createClient, RESP_TYPES }: typeof Redis, { url }: RedisAddress) {
  return createClient({
    url,
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
    socket: { connectTimeout: CONNECT_MS, reconnectStrategy: () => RECONNECT_MS },
  });
}

/** Together less than the second within which callers must get an error. */
const IDLE_TIMEOUT_MS = 400;
const PULSE_MS = 450;
/** A connection silent for this long counts as broken, even if other connections work. */
const LONGEST_MS = 60_000;

/**
 * Detects a server that no longer answers. A large command may take long, so a second connection pings. If the ping gets no
 * answer either, the server is gone.
 */
class ResponseWatchdog {
  readonly #newClient: () => RedisClient;
  readonly #onGone: () => void;
  #pending = 0;
  #lastSign = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(newClient: () => RedisClient, onGone: () => void) {
    this.#newClient = newClient;
    this.#onGone = onGone;
  }

  /** Wraps each command. */
  async watch<T>(answer: Promise<T>): Promise<T> {
    if (this.#pending === 0) this.#lastSign = performance.now();
    this.#pending += 1;
    this.#timer ??= setTimeout(() => this.#listen(), IDLE_TIMEOUT_MS);
    try {
      return await answer;
    } finally {
      this.#pending -= 1;
      this.#lastSign = performance.now();
      if (this.#pending === 0) this.#stop();
    }
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #listen(): Promise<void> {
    const timer = this.#timer;
    // Reads what arrived while this process was busy first.
    await new Promise((resolve) => setImmediate(resolve));
    const since = this.#lastSign;
    const quiet = performance.now() - since;
    const alive = quiet < IDLE_TIMEOUT_MS / 2 || (quiet < LONGEST_MS && (await answersPing(this.#newClient())));
    // Everything was answered in the meantime.
    if (this.#timer !== timer) return;
    this.#timer = setTimeout(() => this.#listen(), IDLE_TIMEOUT_MS / 2);
    if (!alive && this.#lastSign === since) this.#onGone();
  }
}

async function answersPing(client: RedisClient): Promise<boolean> {
  client.on('error', () => client.destroy());
  const late = setTimeout(() => setImmediate(() => client.destroy()), PULSE_MS);
  try {
    await client.connect();
    await client.sendCommand(['PING']);
    return true;
  } catch {
    return false; // any error means no answer
  } finally {
    clearTimeout(late);
    client.destroy();
  }
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'there is no host of that name',
  EAI_AGAIN: 'the name of the host cannot be looked up at the moment',
  EHOSTUNREACH: 'there is no way to the host',
  ENETUNREACH: 'there is no way to the host',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  ETIMEDOUT: 'it does not answer',
};

/** The server is running but refuses the connection, or is not ready yet. */
const REFUSALS = /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|invalid password|Client sent AUTH|DB index)|LOADING|MASTERDOWN)/;

const PASSWORD = /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|invalid password|Client sent AUTH))/;

export function unreachable(where: string, reason: string): CellaError {
  const next = PASSWORD.test(reason)
    ? 'Correct the user and the password in its address.'
    : 'Start it, or use file storage.';
  return new CellaError('STORAGE_UNREACHABLE', `Redis did not answer at ${where} (${reason}). ${next}`, {
    details: { where, reason },
  });
}

/** For an error that the server returned. */
export function refused(where: string, message: string): CellaError {
  if (REFUSALS.test(message)) return unreachable(where, message);
  const [word = ''] = message.split(' ', 1);
  const advice: Record<string, string> = {
    OOM: ' Give the server more memory (maxmemory).',
    MISCONF: ' It cannot save to its disk: check its log.',
    READONLY: ' It is a replica: use the address of the primary.',
  };
  return new CellaError('STORAGE_FAILED', `Redis refused a command at ${where}: ${message}.${advice[word] ?? ''}`, {
    details: { where, reason: word },
  });
}

/** Hides the client's own errors, because some contain its options. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const code = systemCode(cause) ?? '';
  const inner = cause instanceof AggregateError ? cause.errors[0] : undefined;
  return reasons[code] ?? (inner ? reasonOf(inner) : cause.message);
}

const OLDEST = [6, 2] as const;

/** One line per problem; empty if there is none. Fails if the server cannot be reached. */
export async function redisProblems(url: string): Promise<string[]> {
  const connection = await RedisConnection.open(parseAddress(url, 'cella'));
  try {
    return await problemsOf(connection);
  } finally {
    await connection.close();
  }
}

export async function problemsOf(connection: RedisConnection): Promise<string[]> {
  const facts = factsIn(asText(await connection.send('INFO')));
  return [...versionProblems(facts), ...(await restartProblems(connection, facts)), ...evictionProblems(facts)].map(
    (problem) => `Redis at ${connection.address.where} ${problem}`,
  );
}

type ServerFacts = ReadonlyMap<string, string>;

function factsIn(info: string): ServerFacts {
  const lines = info.split(/\r?\n/).filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]));
}

function versionProblems(facts: ServerFacts): string[] {
  const version = facts.get('redis_version') ?? '0.0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return [];
  return [`has version ${version}; Cella needs ${OLDEST.join('.')} or later. Install a newer one.`];
}

async function restartProblems(connection: RedisConnection, facts: ServerFacts): Promise<string[]> {
  if (facts.get('aof_enabled') === '1') return [];
  const advice = 'Set `appendonly yes` in its configuration.';
  const saves = await savePoints(connection);
  if (saves === undefined) {
    return [`has no append-only file, and does not report whether it saves. ${advice}`];
  }
  if (saves === '')
    return [`would lose everything in a restart: it neither has an append-only file nor saves. ${advice}`];
  return [`would lose the last minutes in a crash: it saves only from time to time (save ${saves}). ${advice}`];
}

/** Undefined if the server does not permit this query. */
async function savePoints(connection: RedisConnection): Promise<string | undefined> {
  try {
    const [, value] = asList(await connection.send('CONFIG', 'GET', 'save'));
    return asText(value);
  } catch (error) {
    // Managed servers refuse CONFIG. An unreachable server is an error instead.
    if (error instanceof CellaError && error.code === 'STORAGE_FAILED') return undefined;
    if (error instanceof CellaError && String(error.details?.reason).startsWith('NOPERM')) return undefined;
    throw error;
  }
}

function evictionProblems(facts: ServerFacts): string[] {
  const policy = facts.get('maxmemory_policy') ?? 'noeviction';
  if (Number(facts.get('maxmemory') ?? 0) === 0 || policy === 'noeviction') return [];
  return [`evicts keys when its memory is full (maxmemory-policy ${policy}). Set \`maxmemory-policy noeviction\`.`];
}
