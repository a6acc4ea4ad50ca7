/** What is known of the turns of a session, in storage: each from the moment it was accepted. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { isTurnOver, TurnInfo } from '../../protocol/turn.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { type EveryDocument, everyDocument } from '../every-document.ts';
import type { TurnPage } from './contract.ts';

const COLLECTION = 'turns';
/** Of one session; the oldest go first. */
const MOST_RECORDS = 1000;
/** So many more are kept until it is worth looking for the oldest. */
const SLACK = 100;

const TurnRecord = TurnInfo.extend({
  /** The name of the request that brought it, where it had an Idempotency-Key, and a digest of what was asked. */
  request: z.string().optional(),
  asked: z.string().optional(),
});
export type TurnRecord = z.infer<typeof TurnRecord>;

export class TurnRecords {
  readonly #documents: DocumentStore;
  readonly #sessionId: string;
  #since = 0;

  constructor(documents: DocumentStore, sessionId: string) {
    this.#documents = documents;
    this.#sessionId = sessionId;
  }

  /** Durable when it resolves. */
  async put(record: TurnRecord): Promise<void> {
    await this.#documents.put(COLLECTION, this.#id(record.id), record);
  }

  /** Of one that is new; now and then the oldest make room. */
  async add(record: TurnRecord): Promise<void> {
    await this.put(record);
    if (++this.#since < SLACK) return;
    this.#since = 0;
    const ids = (await this.#all()).filter(isTurnOver).map(({ id }) => id);
    for (const id of ids.slice(0, Math.max(0, ids.length - MOST_RECORDS))) await this.delete(id);
  }

  async find(turn: string): Promise<TurnRecord | undefined> {
    const document = await this.#documents.get(COLLECTION, this.#id(turn));
    const record = TurnRecord.safeParse(document?.value);
    return record.success ? record.data : undefined;
  }

  async get(turn: string): Promise<TurnRecord> {
    const record = await this.find(turn);
    if (record) return record;
    throw new CellaError('NOT_FOUND', `The session has no turn ${turn}, or it is no longer kept.`);
  }

  async byRequest(name: string): Promise<TurnRecord | undefined> {
    return (await this.#all()).findLast(({ request }) => request === name);
  }

  async page({
    limit = 100,
    before,
  }: {
    readonly limit?: number;
    readonly before?: string | undefined;
  }): Promise<TurnPage> {
    const older = (await this.#all()).filter(({ id }) => before === undefined || id < before).toReversed();
    const turns = older.slice(0, limit).map(infoOf);
    return { turns, ...(older.length > limit ? { next: turns.at(-1)?.id } : {}) };
  }

  /** Oldest first. */
  all(): Promise<TurnRecord[]> {
    return this.#all();
  }

  async delete(turn: string): Promise<void> {
    await this.#documents.delete(COLLECTION, this.#id(turn));
  }

  /** Every one of the session, those too that cannot be read. */
  async remove(): Promise<void> {
    for await (const { id } of this.#every()) await this.#documents.delete(COLLECTION, id);
  }

  async #all(): Promise<TurnRecord[]> {
    const records: TurnRecord[] = [];
    for await (const { value } of this.#every()) {
      const record = TurnRecord.safeParse(value);
      if (record.success) records.push(record.data);
    }
    return records;
  }

  #every(): AsyncGenerator<EveryDocument> {
    return everyDocument(this.#documents, COLLECTION, { prefix: this.#id('') });
  }

  #id(turn: string): string {
    return `${this.#sessionId}/${turn}`;
  }
}

/** What others are told of it. */
export function infoOf({ request, asked, ...info }: TurnRecord): TurnInfo {
  return info;
}
