/** Documents: for each collection a hash by id, and a sorted set of the ids; one counter gives all revisions. */

import type { DocumentCondition, DocumentPage, DocumentStore, ListDocuments, StoredDocument } from '../contract.ts';
import {
  checkCollection,
  checkId,
  documentText,
  type KeptDocument,
  PAGE_CHARACTERS,
  pageOf,
  rangeOf,
  readDocument,
} from '../document-text.ts';
import type { Place } from './place.ts';
import { asList, asNumber, asText, asTextIfAny } from './reply.ts';
import { script } from './script.ts';

/** A value is `revision document`. ARGV: id, and the revision it must have, empty where any will do. */
const HOLDS = `
local function holds()
  if ARGV[2] == '' then return true end
  local old = redis.call('HGET', KEYS[1], ARGV[1])
  if not old then return ARGV[2] == '0' end
  return old:match('^(%d+) ') == ARGV[2]
end
`;

const PUT = script(`${HOLDS}
if not holds() then return 0 end
local revision = string.format('%.0f', redis.call('INCR', KEYS[3]))
redis.call('HSET', KEYS[1], ARGV[1], revision .. ' ' .. ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return revision
`);

const DELETE = script(`${HOLDS}
if not holds() then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
`);

/** ARGV: the two ends of the range, the most documents, the most bytes. Gives whether there are more, then ids and values. */
const LIST = script(`
local most, left = tonumber(ARGV[3]), tonumber(ARGV[4])
local found = {0}
for index, id in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, most + 1)) do
  if index > most or left <= 0 then
    found[1] = 1
    break
  end
  local value = redis.call('HGET', KEYS[1], id) or ''
  left = left - #value
  table.insert(found, id)
  table.insert(found, value)
end
return found
`);

export class RedisDocuments implements DocumentStore {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  async get(collection: string, id: string): Promise<StoredDocument | undefined> {
    const { link } = this.#place;
    const [hash] = this.#keysOf(collection);
    const value = asTextIfAny(await link.send('HGET', hash, checkId(id)));
    return value === undefined
      ? undefined
      : readDocument(collection, toKept(id, value), `Redis at ${link.address.where}`);
  }

  async put(
    collection: string,
    id: string,
    value: unknown,
    { ifRevision }: DocumentCondition = {},
  ): Promise<number | undefined> {
    const keys = this.#keysOf(collection);
    const args = [checkId(id), String(ifRevision ?? ''), documentText(collection, id, value)];
    return asNumber(await this.#place.link.run(PUT, keys, args)) || undefined;
  }

  async delete(collection: string, id: string, { ifRevision }: DocumentCondition = {}): Promise<boolean> {
    const args = [checkId(id), String(ifRevision ?? '')];
    return asNumber(await this.#place.link.run(DELETE, this.#keysOf(collection), args)) === 1;
  }

  async list(collection: string, options: ListDocuments = {}): Promise<DocumentPage> {
    const { from, inclusive, to, limit } = rangeOf(options);
    const ends = [`${inclusive ? '[' : '('}${from}`, `(${to}`];
    const args = [...ends, String(limit), String(PAGE_CHARACTERS)];
    const [more, ...found] = asList(await this.#place.link.run(LIST, this.#keysOf(collection), args));
    const kept: KeptDocument[] = [];
    for (let at = 0; at + 1 < found.length; at += 2) kept.push(toKept(asText(found[at]), asText(found[at + 1])));
    return pageOf(kept, asNumber(more) === 1);
  }

  #keysOf(collection: string): readonly [documents: string, ids: string, count: string] {
    const { keys } = this.#place;
    checkCollection(collection);
    return [keys.of('documents', collection), keys.of('documents-order', collection), keys.of('documents-count')];
  }
}

function toKept(id: string, value: string): KeptDocument {
  const [, revision, text = ''] = /^(\d+) (.*)$/s.exec(value) ?? [];
  return { id, revision: revision === undefined ? undefined : Number(revision), text };
}
