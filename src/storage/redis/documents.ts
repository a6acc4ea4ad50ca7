/**
 * Documents: for each collection a hash by id, and a sorted set of the ids; one counter for all revisions. Collections
 * that are found by fields also have a sorted set of `entry id`, and a hash with the entries of each id.
 */

import { giveWay } from '../../lib/event-loop.ts';
import {
  checkCollection,
  checkId,
  documentText,
  entriesOf,
  entryOf,
  isIndexed,
  type KeptDocument,
  PAGE_CHARACTERS,
  pageOf,
  rangeOf,
  readDocument,
} from '../collection.ts';
import type {
  DocumentCondition,
  DocumentField,
  DocumentPage,
  DocumentStore,
  ListDocuments,
  StoredDocument,
} from '../contract.ts';
import { asList, asNumber, asText, asTextIfAny, type RedisContext, type RedisReply, script } from './redis-context.ts';

const REINDEX_AT_ONCE = 100;

/** A value is `revision document`. ARGV: id, and the required revision; empty for any. */
const HOLDS = `
local function holds()
  if ARGV[2] == '' then return true end
  local old = redis.call('HGET', KEYS[1], ARGV[1])
  if not old then return ARGV[2] == '0' end
  return old:match('^(%d+) ') == ARGV[2]
end
`;

/** ARGV from `first` on: the entries. */
const INDEXING = `
local function unindex()
  local old = redis.call('HGET', KEYS[5], ARGV[1])
  if not old then return end
  for entry in old:gmatch('[^\\n]+') do redis.call('ZREM', KEYS[4], entry .. ' ' .. ARGV[1]) end
  redis.call('HDEL', KEYS[5], ARGV[1])
end
local function index(first)
  unindex()
  for i = first, #ARGV do redis.call('ZADD', KEYS[4], 0, ARGV[i] .. ' ' .. ARGV[1]) end
  redis.call('HSET', KEYS[5], ARGV[1], table.concat(ARGV, '\\n', first))
end
`;

/** ARGV: those of `holds`, then the document, whether it is found by fields, and its entries. */
const PUT = script(`${HOLDS}${INDEXING}
if not holds() then return 0 end
local revision = string.format('%.0f', redis.call('INCR', KEYS[3]))
redis.call('HSET', KEYS[1], ARGV[1], revision .. ' ' .. ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
if ARGV[4] == '1' then index(5) end
return revision
`);

const DELETE = script(`${HOLDS}${INDEXING}
if not holds() then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[3] == '1' then unindex() end
return redis.call('HDEL', KEYS[1], ARGV[1])
`);

/** Adds the entries of a document that an earlier version wrote or deleted. ARGV: as `holds`, then its entries. */
const REINDEX = script(`${HOLDS}${INDEXING}
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then unindex() elseif holds() then index(3) end
return 0
`);

/**
 * ARGV: both ends of the range, the most documents, the most bytes, whether the range is one of entries, and
 * whether all documents must have entries. Returns whether there are more, then ids and values; -1 if some lack entries.
 */
const LIST = script(`
local most, left = tonumber(ARGV[3]), tonumber(ARGV[4])
local found, from = {0}, KEYS[2]
if ARGV[5] == '1' then
  if ARGV[6] == '1' and redis.call('HLEN', KEYS[5]) ~= redis.call('ZCARD', KEYS[2]) then return {-1} end
  from = KEYS[4]
end
for index, member in ipairs(redis.call('ZRANGEBYLEX', from, ARGV[1], ARGV[2], 'LIMIT', 0, most + 1)) do
  if index > most or left <= 0 then
    found[1] = 1
    break
  end
  local id = member:match('[^ ]+$')
  local value = redis.call('HGET', KEYS[1], id) or ''
  left = left - #value
  table.insert(found, id)
  table.insert(found, value)
end
return found
`);

/** ARGV: both ends of the range of entries, and whether all documents must have entries; -1 if some lack them. */
const COUNT = script(`
if ARGV[3] == '1' and redis.call('HLEN', KEYS[5]) ~= redis.call('ZCARD', KEYS[2]) then return -1 end
return redis.call('ZLEXCOUNT', KEYS[4], ARGV[1], ARGV[2])
`);

export class RedisDocuments implements DocumentStore {
  readonly #context: RedisContext;

  constructor(context: RedisContext) {
    this.#context = context;
  }

  async get(collection: string, id: string): Promise<StoredDocument | undefined> {
    const { redis } = this.#context;
    const [hash] = this.#keysOf(collection);
    const value = asTextIfAny(await redis.send('HGET', hash, checkId(id)));
    return value === undefined
      ? undefined
      : readDocument(collection, toKept(id, value), `Redis at ${redis.address.where}`);
  }

  async put(
    collection: string,
    id: string,
    value: unknown,
    { ifRevision }: DocumentCondition = {},
  ): Promise<number | undefined> {
    const keys = this.#keysOf(collection);
    const text = documentText(collection, id, value);
    const indexed = isIndexed(collection) ? ['1', ...entriesOf(collection, value)] : [''];
    const args = [checkId(id), String(ifRevision ?? ''), text, ...indexed];
    return asNumber(await this.#context.redis.run(PUT, keys, args)) || undefined;
  }

  async delete(collection: string, id: string, { ifRevision }: DocumentCondition = {}): Promise<boolean> {
    const args = [checkId(id), String(ifRevision ?? ''), isIndexed(collection) ? '1' : ''];
    return asNumber(await this.#context.redis.run(DELETE, this.#keysOf(collection), args)) === 1;
  }

  async list(collection: string, options: ListDocuments = {}): Promise<DocumentPage> {
    const { from, inclusive, to, limit } = rangeOf(options);
    const entry = options.where ? `${entryOf(collection, options.where)} ` : '';
    const ends = [`${inclusive ? '[' : '('}${entry}${from}`, `(${entry}${to}`];
    const args = [...ends, String(limit), String(PAGE_CHARACTERS), entry === '' ? '' : '1'];
    const [more, ...found] = await this.#complete(collection, async (mustBe) =>
      asList(await this.#context.redis.run(LIST, this.#keysOf(collection), [...args, mustBe])),
    );
    const kept: KeptDocument[] = [];
    for (let at = 0; at + 1 < found.length; at += 2) kept.push(toKept(asText(found[at]), asText(found[at + 1])));
    return pageOf(kept, asNumber(more) === 1);
  }

  async count(collection: string, where?: DocumentField): Promise<number> {
    const keys = this.#keysOf(collection);
    if (!where) return asNumber(await this.#context.redis.send('ZCARD', keys[1]));
    const entry = entryOf(collection, where);
    const [count] = await this.#complete(collection, async (mustBe) => [
      await this.#context.redis.run(COUNT, keys, [`[${entry} `, `(${entry}!`, mustBe]),
    ]);
    return asNumber(count);
  }

  /** Earlier versions wrote no entries. */
  async #complete(
    collection: string,
    ask: (mustBe: string) => Promise<readonly RedisReply[]>,
  ): Promise<readonly RedisReply[]> {
    const reply = await ask('1');
    if (asNumber(reply[0]) !== -1) return reply;
    await this.#reindex(collection);
    return await ask('');
  }

  /** Several may do so at once. */
  async #reindex(collection: string): Promise<void> {
    const keys = this.#keysOf(collection);
    const { redis } = this.#context;
    const put = (id: string, revision: string, entries: readonly string[]) =>
      redis.run(REINDEX, keys, [id, revision, ...entries]);
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page: DocumentPage = await this.list(collection, { after, limit: REINDEX_AT_ONCE });
      await Promise.all([
        ...page.documents.map(({ id, revision, value }) => put(id, String(revision), entriesOf(collection, value))),
        ...page.damaged.map(({ id }) => put(id, '', [])),
      ]);
      await giveWay();
      after = page.next;
    }
    // Also removes the entries of deleted documents.
    for (let cursor: string | undefined = '0'; cursor !== undefined; ) {
      const [next, found] = asList(await redis.send('HSCAN', keys[4], cursor, 'COUNT', String(REINDEX_AT_ONCE)));
      const ids = asList(found ?? []).filter((_, at) => at % 2 === 0);
      for (const id of ids.map(asText)) {
        await giveWay();
        if (asNumber(await redis.send('HEXISTS', keys[0], id)) === 0) await put(id, '-', []);
      }
      cursor = asText(next) === '0' ? undefined : asText(next);
    }
  }

  #keysOf(collection: string): readonly [string, string, string, string, string] {
    const { keys } = this.#context;
    checkCollection(collection);
    return [
      keys.of('documents', collection),
      keys.of('documents-order', collection),
      keys.of('documents-count'),
      keys.of('documents-entries', collection),
      keys.of('documents-fields', collection),
    ];
  }
}

function toKept(id: string, value: string): KeptDocument {
  const [, revision, text = ''] = /^(\d+) (.*)$/s.exec(value) ?? [];
  return { id, revision: revision === undefined ? undefined : Number(revision), text };
}
