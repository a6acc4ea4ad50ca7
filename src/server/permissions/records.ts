/** The requests of one session in storage: written down before anybody sees them, and with how they ended. */

import { z } from 'zod';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { PermissionInfo } from '../../protocol/api/agent-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { Collection } from '../access/collection.ts';
import { defined } from './told.ts';

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

type Requested = Extract<AgentLogEvent, { type: 'permission_requested' | 'question' }>;
type Resolved = Extract<AgentLogEvent, { type: 'permission_resolved' }>;

export function requestedEvent(info: PermissionInfo): Requested {
  const { id, turn, question, tool, summary } = info;
  if (question && turn !== undefined) return { type: 'question', id, turn, ...question };
  const { execution, item, input, recipe, pattern, exactly, expiresAt } = info;
  const more = { turn, execution, item, input, recipe, pattern, exactly, expiresAt };
  return { type: 'permission_requested', id, tool, summary, ...defined(more) };
}

/** Undefined as long as nobody has decided. */
export function resolvedEvent({ id, turn, execution, resolution }: PermissionInfo): Resolved | undefined {
  if (!resolution) return undefined;
  const { at, outcome, ...more } = resolution;
  return { type: 'permission_resolved', id, outcome, ...defined({ turn, execution, ...more }) };
}

/** Of a decision that was made before it was asked for again. */
export function takenText({ id, tool, summary, resolution }: PermissionInfo): string {
  const { outcome = 'cancelled', by = 'somebody' } = resolution ?? {};
  const what = `${tool}: ${summary.slice(0, 200).toWellFormed()}`;
  return `Nobody is asked again: ${id} (${what}) was ${outcome} by ${by} after the server was started anew.`;
}
