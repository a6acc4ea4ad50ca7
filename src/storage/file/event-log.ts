/** Event logs: numbered rows, and for each log the last number given out and the last one trimmed. */

import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { giveWay, inSlices } from '../../lib/event-loop.ts';
import {
  type AppendOptions,
  type Clock,
  type EventLog,
  type EventReadOptions,
  type LoggedEvent,
  PAGE_CHARACTERS,
  type TrimLimits,
} from '../contract.ts';
import { eventJson } from '../validation.ts';
import { type Database, keyColumn, type SqliteConnection } from './database.ts';

const PAGE_EVENTS = 200;
/** How many events, and about how many of their bytes, to remove before yielding to other work. */
const TRIM_EVENTS = 2000;
const TRIM_BYTES = 8 * 1024 * 1024;

interface LogRow {
  readonly id: number;
  readonly last: number;
  readonly floor: number;
  /** The size of all events ever appended, as JSON. */
  readonly bytes: number;
}

export class FileEventLog implements EventLog {
  readonly #database: Database;
  readonly #clock: Clock;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  async append(agentKey: string, events: readonly unknown[], { flushed = true }: AppendOptions = {}): Promise<number> {
    const texts = events.map(eventJson);
    if (texts.length === 0) return this.last(agentKey);
    const at = Math.trunc(this.#clock());
    const insert = (db: SqliteConnection) => {
      const log = findLog(db, agentKey) ?? makeLog(db, agentKey);
      let { last, bytes } = log;
      for (const text of texts) {
        last += 1;
        db.run('INSERT INTO events (log, seq, at, start, event) VALUES (?, ?, ?, ?, ?)', log.id, last, at, bytes, text);
        bytes += Buffer.byteLength(text);
      }
      db.run('UPDATE logs SET last = ?, bytes = ? WHERE id = ?', last, bytes, log.id);
      return last;
    };
    return flushed ? this.#database.writeDurably(insert) : this.#database.write(insert);
  }

  async *read(
    agentKey: string,
    { after = 0, limit = Infinity, onePage = false }: EventReadOptions = {},
  ): AsyncGenerator<LoggedEvent> {
    let [position, left] = [after, limit];
    while (left > 0) {
      const page = await this.#database.read((db) => readPage(db, agentKey, position, Math.min(left, PAGE_EVENTS)));
      if (page.length === 0) return;
      yield* inSlices(page);
      if (onePage) return;
      position = page.at(-1)?.seq ?? position;
      left -= page.length;
    }
  }

  async last(agentKey: string): Promise<number> {
    return (await this.#log(agentKey))?.last ?? 0;
  }

  async floor(agentKey: string): Promise<number> {
    return (await this.#log(agentKey))?.floor ?? 0;
  }

  bytes(agentKey: string): Promise<number> {
    return this.#database.read((db) => {
      const log = findLog(db, agentKey);
      const first = 'SELECT start FROM events WHERE log = ? AND seq > ? ORDER BY seq LIMIT 1';
      return log ? log.bytes - Number(db.get(first, log.id, log.floor)?.start ?? log.bytes) : 0;
    });
  }

  /** Raises the floor first: readers no longer see what is below it, even if the rows are removed later. */
  async trim(agentKey: string, limits: TrimLimits): Promise<number> {
    const log = await this.#log(agentKey);
    if (!log) return 0;
    const floor = await this.#newFloor(log, limits);
    if (floor > log.floor) {
      const raise = 'UPDATE logs SET floor = max(floor, ?) WHERE id = ?';
      await this.#database.writeDurably((db) => db.run(raise, floor, log.id));
    }
    await this.#removeUpTo({ ...log, floor });
    return floor;
  }

  async delete(agentKey: string): Promise<boolean> {
    await this.trim(agentKey, { maxEvents: 0 });
    return this.#database.writeDurably((db) => {
      const log = findLog(db, agentKey);
      if (!log) return false;
      db.run('DELETE FROM events WHERE log = ?', log.id);
      db.run('DELETE FROM logs WHERE id = ?', log.id);
      return true;
    });
  }

  /** Trims only from the front: if an event has an earlier time than one before it, it stays until that one is trimmed. */
  async #newFloor(log: LogRow, { maxEvents, maxBytes, olderThan }: TrimLimits): Promise<number> {
    const floors = [log.floor];
    if (maxEvents !== undefined) floors.push(log.last - Math.max(0, maxEvents));
    if (maxBytes !== undefined) {
      const least = log.bytes - Math.max(0, maxBytes);
      floors.push(await this.#database.read((db) => lastBelow(db, log, least)));
    }
    for (let at = log.floor; olderThan !== undefined && at < log.last; at += TRIM_EVENTS) {
      const first = 'SELECT seq FROM events WHERE log = ? AND seq > ? AND seq <= ? AND at >= ? ORDER BY seq LIMIT 1';
      const found = await this.#database.read((db) => db.get(first, log.id, at, at + TRIM_EVENTS, olderThan));
      floors.push(found ? Number(found.seq) - 1 : Math.min(at + TRIM_EVENTS, log.last));
      if (found) break;
      await giveWay();
    }
    return Math.max(...floors);
  }

  async #removeUpTo(log: LogRow): Promise<void> {
    while (await this.#removeSome(log)) await yieldToEventLoop();
  }

  /** False if there are no more. */
  async #removeSome(log: LogRow): Promise<boolean> {
    const first = 'SELECT seq, start FROM events WHERE log = ? AND seq <= ? ORDER BY seq LIMIT 1';
    const found = await this.#database.read((db) => db.get(first, log.id, log.floor));
    if (!found) return false;
    const [seq, start] = [Number(found.seq), Number(found.start)];
    const some = 'DELETE FROM events WHERE log = ? AND seq <= ?';
    await this.#database.write((db) => {
      const last = Math.min(log.floor, seq + TRIM_EVENTS - 1);
      db.run(some, log.id, lastBelow(db, { ...log, floor: seq, last }, start + TRIM_BYTES));
    });
    return true;
  }

  #log(agentKey: string): Promise<LogRow | undefined> {
    return this.#database.read((db) => findLog(db, agentKey));
  }
}

function findLog(db: SqliteConnection, agentKey: string): LogRow | undefined {
  const row = db.get('SELECT id, last, floor, bytes FROM logs WHERE agent = ?', keyColumn(agentKey));
  return row && { id: Number(row.id), last: Number(row.last), floor: Number(row.floor), bytes: Number(row.bytes) };
}

function makeLog(db: SqliteConnection, agentKey: string): LogRow {
  const made = 'INSERT INTO logs (agent, last, floor, bytes) VALUES (?, 0, 0, 0) RETURNING id';
  return { id: Number(db.get(made, keyColumn(agentKey))?.id), last: 0, floor: 0, bytes: 0 };
}

function readPage(db: SqliteConnection, agentKey: string, after: number, limit: number): LoggedEvent[] {
  const log = findLog(db, agentKey);
  if (!log) return [];
  const page: LoggedEvent[] = [];
  let characters = 0;
  const rows = 'SELECT seq, at, event FROM events WHERE log = ? AND seq > ? ORDER BY seq LIMIT ?';
  for (const { seq, at, event } of db.iterate(rows, log.id, Math.max(after, log.floor), limit)) {
    const text = String(event);
    page.push({ seq: Number(seq), at: Number(at), event: JSON.parse(text) });
    characters += text.length;
    if (characters >= PAGE_CHARACTERS) break;
  }
  return page;
}

/** The last event that begins before this many bytes. Numbers have no gaps, and each event begins after the one before it. */
function lastBelow(db: SqliteConnection, { id, floor, last }: LogRow, bytes: number): number {
  let [below, above] = [floor, last + 1];
  while (above - below > 1) {
    const middle = Math.floor((below + above) / 2);
    const row = db.get('SELECT start FROM events WHERE log = ? AND seq = ?', id, middle);
    if (Number(row?.start ?? bytes) >= bytes) above = middle;
    else below = middle;
  }
  return below;
}
