/** Event logs: a stream whose entry ids are the event numbers, and a hash with the last number, the last trimmed one and the size. */

import { giveWay } from '../../lib/event-loop.ts';
import {
  type EventLog,
  type EventReadOptions,
  type LoggedEvent,
  PAGE_CHARACTERS,
  type TrimLimits,
} from '../contract.ts';
import { eventJson } from '../validation.ts';
import {
  asList,
  asNumber,
  asText,
  asTextIfAny,
  quoted,
  type RedisContext,
  type RedisReply,
  script,
} from './redis-context.ts';

const PAGE_EVENTS = 200;
/** How many events a script takes at a time, at most: Redis holds them in memory, with those beyond the page. */
const PART_EVENTS = 8;
/** How many events one script examines: Redis does nothing else meanwhile, for any user. */
const TRIM_EVENTS = 2000;

const APPEND = script(`
local facts = redis.call('HMGET', KEYS[1], 'last', 'bytes')
local last, bytes = tonumber(facts[1] or 0), tonumber(facts[2] or 0)
for i = 2, #ARGV do
  last = last + 1
  redis.call('XADD', KEYS[2], string.format('%.0f-0', last), 'at', ARGV[1], 'start', string.format('%.0f', bytes), 'event', ARGV[i])
  bytes = bytes + #ARGV[i]
end
redis.call('HSET', KEYS[1], 'last', string.format('%.0f', last), 'bytes', string.format('%.0f', bytes))
return last
`);

/** ARGV: the number of the event before the page, the most events, and how many bytes end the page. */
const READ = script(
  `
local page, after, left, bytes = {}, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
while left > 0 do
  local count = math.min(left, #page + 1, ${PART_EVENTS})
  local part = redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', count)
  if #part == 0 then return page end
  for _, entry in ipairs(part) do
    page[#page + 1] = entry
    after, left, bytes = entry[1], left - 1, bytes - #entry[2][6]
    if bytes <= 0 then return page end
  end
end
return page
`,
  { readOnly: true },
);

/**
 * Trims only from the front: if an event has an earlier time than one before it, it stays until that one is trimmed.
 * ARGV: the most events, the most bytes and the time, each empty if it is not limited; then how many events to examine.
 * Returns the floor, and 1 if there may be more to remove.
 */
const TRIM = script(`
local facts = redis.call('HMGET', KEYS[1], 'last', 'bytes', 'floor')
if not facts[1] then return {0, 0} end
local last, bytes, floor = tonumber(facts[1]), tonumber(facts[2]), tonumber(facts[3] or 0)
local old, more, most = floor, 0, tonumber(ARGV[4])
local function id(number) return string.format('%.0f-0', number) end
local function before_first(field, value)
  local at = old
  while at - old < most do
    local page = redis.call('XRANGE', KEYS[2], '(' .. id(at), '+', 'COUNT', 50)
    if #page == 0 then return last end
    for _, entry in ipairs(page) do
      if tonumber(entry[2][field]) >= value then return at end
      at = at + 1
    end
  end
  more = 1
  return at
end
if ARGV[1] ~= '' then floor = math.max(floor, last - math.max(0, tonumber(ARGV[1]))) end
if ARGV[2] ~= '' then floor = math.max(floor, before_first(4, bytes - math.max(0, tonumber(ARGV[2])))) end
if ARGV[3] ~= '' then floor = math.max(floor, before_first(2, tonumber(ARGV[3]))) end
if floor > old then
  redis.call('HSET', KEYS[1], 'floor', string.format('%.0f', floor))
  redis.call('XTRIM', KEYS[2], 'MINID', id(floor + 1))
end
return {floor, more}
`);

export class RedisEventLog implements EventLog {
  readonly #context: RedisContext;

  constructor(context: RedisContext) {
    this.#context = context;
  }

  async append(agentKey: string, events: readonly unknown[]): Promise<number> {
    const texts = events.map(eventJson);
    if (texts.length === 0) return this.last(agentKey);
    const at = String(Math.trunc(this.#context.clock()));
    return asNumber(await this.#context.redis.run(APPEND, this.#keysOf(agentKey), [at, ...texts]));
  }

  async *read(
    agentKey: string,
    { after = 0, limit = Infinity, onePage = false }: EventReadOptions = {},
  ): AsyncGenerator<LoggedEvent> {
    let [position, left] = [Math.max(0, Math.floor(after)), limit];
    const [, stream] = this.#keysOf(agentKey);
    while (left > 0 && Number.isSafeInteger(position)) {
      const args = [`${position}-0`, String(Math.min(Math.ceil(left), PAGE_EVENTS)), String(PAGE_CHARACTERS)];
      const page = asList(await this.#context.redis.run(READ, [stream], args));
      if (page.length === 0) return;
      for (const entry of page) {
        await giveWay();
        const logged = toEvent(entry);
        position = logged.seq;
        yield logged;
      }
      if (onePage) return;
      left -= page.length;
    }
  }

  last(agentKey: string): Promise<number> {
    return this.#fact(agentKey, 'last');
  }

  floor(agentKey: string): Promise<number> {
    return this.#fact(agentKey, 'floor');
  }

  async bytes(agentKey: string): Promise<number> {
    const [, stream] = this.#keysOf(agentKey);
    const all = await this.#fact(agentKey, 'bytes');
    const [first] = asList(await this.#context.redis.send('XRANGE', stream, '-', '+', 'COUNT', '1'));
    return first === undefined ? 0 : all - asNumber(asList(asList(first)[1])[3]);
  }

  async trim(agentKey: string, { maxEvents, maxBytes, olderThan }: TrimLimits): Promise<number> {
    const limits = [maxEvents, maxBytes, olderThan].map((limit) => (limit === undefined ? '' : String(limit)));
    for (;;) {
      const args = [...limits, String(TRIM_EVENTS)];
      const [floor, more] = asList(await this.#context.redis.run(TRIM, this.#keysOf(agentKey), args));
      if (asNumber(more) === 0) return asNumber(floor);
    }
  }

  async delete(agentKey: string): Promise<boolean> {
    return asNumber(await this.#context.redis.send('UNLINK', ...this.#keysOf(agentKey))) > 0;
  }

  async #fact(agentKey: string, name: string): Promise<number> {
    const [facts] = this.#keysOf(agentKey);
    return Number(asTextIfAny(await this.#context.redis.send('HGET', facts, name)) ?? 0);
  }

  #keysOf(agentKey: string): readonly [facts: string, stream: string] {
    const { keys } = this.#context;
    return [keys.of('log', quoted(agentKey)), keys.of('events', quoted(agentKey))];
  }
}

function toEvent(entry: RedisReply): LoggedEvent {
  const [id, fields] = asList(entry);
  const [, at, , , , event] = asList(fields);
  return { seq: Number.parseInt(asText(id), 10), at: asNumber(at), event: JSON.parse(asText(event)) };
}
