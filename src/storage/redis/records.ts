/** Session records: a hash of their texts, and a sorted set with the order in which their keys were first put. */

import { giveWay } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DamagedRecord, ListRecords, RecordStore } from '../contract.ts';
import { type ParsedRecord, parseRecord, recordText } from '../record-text.ts';
import type { SessionRecord } from '../session-record.ts';
import { quoted, unquoted } from './keys.ts';
import type { Place } from './place.ts';
import { asList, asNumber, asText, asTextIfAny } from './reply.ts';
import { script } from './script.ts';

const PAGE = 50;

const PUT = script(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), ARGV[1])
end
return 1
`);

const DELETE = script(`
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
`);

export class RedisRecords implements RecordStore {
  readonly #place: Place;
  readonly #keys: readonly [texts: string, order: string, count: string];

  constructor(place: Place) {
    this.#place = place;
    this.#keys = [place.keys.of('records'), place.keys.of('records-order'), place.keys.of('records-count')];
  }

  async get(agentKey: string): Promise<SessionRecord | undefined> {
    const { link } = this.#place;
    const text = asTextIfAny(await link.send('HGET', this.#keys[0], quoted(agentKey)));
    if (text === undefined) return undefined;
    const parsed = parseRecord(text);
    if ('record' in parsed) return parsed.record;
    throw new CellaError(
      'STORAGE_FAILED',
      `Cannot read the record of agent ${JSON.stringify(agentKey)} in Redis at ${link.address.where}: ${parsed.reason}. ` +
        'Use the version of Cella that wrote it, or delete the agent.',
      { details: { agentKey } },
    );
  }

  async put(agentKey: string, record: SessionRecord): Promise<void> {
    const text = recordText(agentKey, record);
    await this.#place.link.run(PUT, this.#keys, [quoted(agentKey), text]);
  }

  async list({ which }: ListRecords = {}): Promise<SessionRecord[]> {
    const all = await this.#all(which);
    return all.flatMap(({ parsed }) => ('record' in parsed ? [parsed.record] : []));
  }

  async damaged(): Promise<DamagedRecord[]> {
    const all = await this.#all();
    return all.flatMap(({ agentKey, parsed }) => ('reason' in parsed ? [{ agentKey, reason: parsed.reason }] : []));
  }

  async delete(agentKey: string): Promise<boolean> {
    return asNumber(await this.#place.link.run(DELETE, this.#keys, [quoted(agentKey)])) > 0;
  }

  async #all(which: ListRecords['which'] = () => true): Promise<{ agentKey: string; parsed: ParsedRecord }[]> {
    const { link } = this.#place;
    const fields: string[] = [];
    for (const field of asList(await link.send('ZRANGE', this.#keys[1], '0', '-1')).map(asText)) {
      await giveWay();
      if (which(unquoted(field))) fields.push(field);
    }
    const all: { agentKey: string; parsed: ParsedRecord }[] = [];
    for (let at = 0; at < fields.length; at += PAGE) {
      const page = fields.slice(at, at + PAGE);
      const texts = asList(await link.send('HMGET', this.#keys[0], ...page)).map(asTextIfAny);
      for (const [index, field] of page.entries()) {
        const text = texts[index];
        await giveWay();
        // Deleted since the fields were read.
        if (text !== undefined) all.push({ agentKey: unquoted(field), parsed: parseRecord(text) });
      }
    }
    return all;
  }
}
