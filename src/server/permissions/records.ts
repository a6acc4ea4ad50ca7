/** The requests of one session in storage: written down before anybody sees them, and with how they ended. */

import { z } from 'zod';
import { PermissionInfo } from '../../protocol/api/agent-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { Collection } from '../access/collection.ts';

const COLLECTION = 'permissions';
/** Of one session, that are over: the oldest go first. */
const MOST_OVER = 100;

/**
 * `request` is the same for the very same thing. `told`: the log says that somebody asks. `logged`: its end is in the
 * log. `delivered`: the asker has it.
 */
const PermissionRecord = z.object({
  info: PermissionInfo,
  request: z.string().optional(),
  told: z.boolean().default(false),
  logged: z.boolean(),
  delivered: z.boolean(),
});
export type PermissionRecord = z.output<typeof PermissionRecord>;

export class PermissionRecords {
  readonly #records: Collection<PermissionRecord>;
  readonly #session: string;

  constructor(documents: DocumentStore, session: string) {
    this.#records = new Collection(documents, COLLECTION, PermissionRecord);
    this.#session = session;
  }

  async put(record: PermissionRecord): Promise<void> {
    await this.#records.put(this.#id(record.info.id), record);
  }

  /** `NOT_FOUND` where there is none. */
  async get(id: string): Promise<PermissionRecord> {
    const found = await this.#records.get(this.#id(id));
    if (found) return found.value;
    throw new CellaError('NOT_FOUND', `The session has no permission ${JSON.stringify(id.slice(0, 100))}.`, {
      advice: 'See what waits with `cella permissions list`, or GET /v1/sessions/:id/permissions.',
    });
  }

  /** Oldest first. */
  async all(): Promise<PermissionRecord[]> {
    const records: PermissionRecord[] = [];
    for await (const { value } of this.#records.all(this.#id(''))) records.push(value);
    return records;
  }

  async prune(): Promise<void> {
    const over = (await this.all()).filter(({ info }) => info.state === 'resolved');
    for (const { info } of over.slice(0, Math.max(0, over.length - MOST_OVER))) {
      await this.#records.delete(this.#id(info.id));
    }
  }

  async deleteAll(): Promise<void> {
    await this.#records.deleteAll(this.#id(''));
  }

  #id(permission: string): string {
    return `${this.#session}/${permission}`;
  }
}
