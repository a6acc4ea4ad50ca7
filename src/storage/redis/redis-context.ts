/** What all Redis stores share: the server address, key names, Lua scripts, and parsed replies. */

import { createHash } from 'node:crypto';
import { giveWay } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Clock } from '../contract.ts';

/** Commands to the server: the connection itself, or one that only writes while a lock is held. */
export interface RedisCommands {
  readonly address: RedisAddress;
  send(...args: RedisArgument[]): Promise<RedisReply>;
  run(script: Script, keys: readonly string[], args: readonly RedisArgument[]): Promise<RedisReply>;
}

export interface RedisContext {
  readonly redis: RedisCommands;
  readonly keys: RedisKeys;
  readonly clock: Clock;
}

/** A password in the url never leaves this object as text. */
export interface RedisAddress {
  readonly url: string;
  /** For messages: the url without user and password. */
  readonly where: string;
  readonly prefix: string;
}

/** None of these characters ends a prefix or has a meaning in a pattern. */
const PREFIX = /^[A-Za-z0-9._:-]{1,100}$/;

export function parseAddress(url: unknown, prefix: unknown): RedisAddress {
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    throw invalid(
      `${JSON.stringify(prefix)} cannot be the prefix of keys: use 1 to 100 of letters, digits and . _ : -`,
    );
  }
  const where = parseUrl(url);
  return { url: String(url), where, prefix };
}

/** Returns the part that can be shown. Errors never contain the url, because any part of it may hold a password. */
function parseUrl(url: unknown): string {
  const expected =
    'write it as redis://host:6379, or rediss:// for TLS, with user:password@ and /database where needed';
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed) throw invalid(`The address of the Redis server is not a URL: ${expected}`);
  const { protocol, hostname, host, pathname, search, hash } = parsed;
  if (!['redis:', 'rediss:'].includes(protocol)) {
    throw invalid(`The address of the Redis server does not begin with redis:// or rediss://: ${expected}`);
  }
  if (hostname === '') throw invalid(`The address of the Redis server has no host: ${expected}`);
  if (!/^\/?\d{0,5}$/.test(pathname) || search || hash) {
    throw invalid(`The address of the Redis server does not end in a database number: ${expected}`);
  }
  if (!decodable(parsed.username) || !decodable(parsed.password)) {
    throw invalid(
      'The user or password in the address of the Redis server contains a % that is not followed by two digits',
    );
  }
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
}

function decodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false; // that is the answer
  }
}

const invalid = (message: string): CellaError => new CellaError('INVALID_OPTIONS', `${message}.`);

/** An agent key, or an id, as part of a name: JSON keeps all texts distinct, even lone surrogates. */
export const quoted = (text: string): string => JSON.stringify(text);

export const unquoted = (text: string): string => String(JSON.parse(text));

/** Key names. A prefix holds no bar, so the first bar ends it and keys of two prefixes never collide. */
export class RedisKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Keys of a scope. No other key begins with the same text, because the scope is quoted as JSON. */
  scoped(name: string): RedisKeys {
    return new RedisKeys(this.of('scope', quoted(name)));
  }

  /** `part` is a constant without a bar. Any text can follow it. */
  of(part: string, ...rest: readonly string[]): string {
    return [this.#prefix, part, ...rest].join('|');
  }
}

/** A Lua script: the server runs all of it at once, or nothing. */
export interface Script {
  readonly text: string;
  readonly sha1: string;
  /** It needs no lock. */
  readonly readOnly: boolean;
}

export function script(text: string, { readOnly = false } = {}): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex'), readOnly };
}

export type RedisReply = Buffer | string | number | null | RedisReply[];

export type RedisArgument = string | Buffer;

const isNothing = (reply: RedisReply | undefined): reply is null | undefined => reply === null || reply === undefined;

export function asBytes(reply: RedisReply | undefined): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  if (typeof reply === 'string') return Buffer.from(reply);
  throw strange(reply);
}

export const asText = (reply: RedisReply | undefined): string => asBytes(reply).toString();

export const asTextIfAny = (reply: RedisReply | undefined): string | undefined =>
  isNothing(reply) ? undefined : asText(reply);

export function asNumber(reply: RedisReply | undefined): number {
  const number = typeof reply === 'number' ? reply : Number(asText(reply));
  if (Number.isNaN(number)) throw strange(reply);
  return number;
}

export function asList(reply: RedisReply | undefined): RedisReply[] {
  if (Array.isArray(reply)) return reply;
  throw strange(reply);
}

/** From `field, value, field, value`. */
function asPairs(reply: RedisReply | undefined): [string, Buffer][] {
  const list = asList(reply);
  const pairs: [string, Buffer][] = [];
  for (let at = 0; at + 1 < list.length; at += 2) pairs.push([asText(list[at]), asBytes(list[at + 1])]);
  return pairs;
}

/** Each value can have megabytes. */
const PAIRS_AT_ONCE = 50;
const NAMES_AT_ONCE = 1000;

/**
 * Reads a whole hash in pages, because a reply is parsed in one go. Fields that change during the read may or may not be
 * included.
 */
export async function readHash(redis: RedisCommands, key: string): Promise<Map<string, Buffer>> {
  const pairs = new Map<string, Buffer>();
  for await (const [field, value] of scanHash(redis, key)) pairs.set(field, value);
  return pairs;
}

/** The same, one by one. A field can come twice. */
export async function* scanHash(redis: RedisCommands, key: string): AsyncGenerator<readonly [string, Buffer]> {
  const page = (cursor: string) => redis.send('HSCAN', key, cursor, 'COUNT', String(PAIRS_AT_ONCE));
  for await (const found of scanned(page)) yield* asPairs(found);
}

const SCAN_FIELDS = script(`
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local fields = {}
for at = 1, #page[2], 2 do fields[#fields + 1] = page[2][at] end
return {page[1], fields}
`);

/** The same, without the values. */
export async function readFields(redis: RedisCommands, key: string): Promise<Set<string>> {
  const fields = new Set<string>();
  const page = (cursor: string) => redis.run(SCAN_FIELDS, [key], [cursor, String(NAMES_AT_ONCE)]);
  for await (const found of scanned(page)) for (const field of asList(found)) fields.add(asText(field));
  return fields;
}

async function* scanned(ask: (cursor: string) => Promise<RedisReply>): AsyncGenerator<RedisReply | undefined> {
  for (let cursor = '0'; ; ) {
    await giveWay();
    const [next, found] = asList(await ask(cursor));
    yield found;
    cursor = asText(next);
    if (cursor === '0') return;
  }
}

/** The members of a sorted set in order, in pages. All scores are different. */
export async function* readOrder(redis: RedisCommands, key: string): AsyncGenerator<string> {
  for (let from = '-inf'; ; ) {
    await giveWay();
    const limit = ['LIMIT', '0', String(NAMES_AT_ONCE)];
    const page = asList(await redis.send('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', ...limit));
    for (let at = 0; at + 1 < page.length; at += 2) yield asText(page[at]);
    if (page.length === 0) return;
    from = `(${asText(page.at(-1))}`;
  }
}

function strange(reply: unknown): CellaError {
  return new CellaError('STORAGE_FAILED', `Redis sent an unexpected reply (${typeof reply}).`);
}
