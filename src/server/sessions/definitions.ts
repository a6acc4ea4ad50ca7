/** The definitions of all sessions, in storage: by id, and one for each owner and agent key. */

import { createHash } from 'node:crypto';
import { CellaError } from '../../protocol/errors.ts';
import type { DocumentField, DocumentStore, ListDocuments } from '../../storage/contract.ts';
import { noSession } from '../access/rights.ts';
import { everyDocument } from '../every-document.ts';
import { ParseCache } from '../parse-cache.ts';
import { Definition } from './definition.ts';

const SESSIONS = 'sessions';
/** Says which session has a key; its id is made of the owner and the key. */
const KEYS = 'session-keys';

export class Definitions {
  readonly #documents: DocumentStore;
  readonly #cache = new ParseCache<Definition>();

  constructor(documents: DocumentStore) {
    this.#documents = documents;
  }

  /** Gives the one that is there where the owner has one for this key. */
  async add(definition: Definition): Promise<Definition | undefined> {
    const { ownerId, agentKey, id } = definition;
    for (;;) {
      const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
      const there = key && (await this.#read(sessionOf(key.value)));
      if (there) return there;
      // The key first: one that leads nowhere is free. Another may have taken it for such meanwhile.
      const condition = { ifRevision: key?.revision ?? 0 };
      const mine = await this.#documents.put(KEYS, keyId(ownerId, agentKey), { session: id }, condition);
      if (mine === undefined) continue;
      await this.#documents.put(SESSIONS, id, definition);
      const now = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
      if (now?.revision === mine) return undefined;
      await this.#documents.delete(SESSIONS, id);
    }
  }

  /** `NOT_FOUND` where there is none, or it is being deleted. */
  async get(id: string): Promise<Definition> {
    const found = await this.#read(id);
    if (found?.life !== 'present') throw noSession(id);
    return found;
  }

  /** As it is by now; `NOT_FOUND` where it is gone meanwhile, or on its way out. */
  async again({ id, life }: Definition): Promise<Definition> {
    const found = await this.#read(id);
    if (found?.life !== life) throw noSession(id);
    return found;
  }

  /** Whether there is one, in whatever state. */
  async exists(id: string): Promise<boolean> {
    return (await this.#documents.get(SESSIONS, id)) !== undefined;
  }

  async find(ownerId: string, agentKey: string): Promise<Definition | undefined> {
    const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
    const found = key && (await this.#read(sessionOf(key.value)));
    return found?.life === 'present' ? found : undefined;
  }

  /** In the order in which they were made. */
  async *all(options: Pick<ListDocuments, 'after' | 'where'> = {}): AsyncGenerator<Definition> {
    for await (const { value } of everyDocument(this.#documents, SESSIONS, options)) {
      const definition = Definition.safeParse(value);
      if (definition.success) yield definition.data;
    }
  }

  /** Those with one of these values, in the order in which they were made, each once. The others are not read. */
  async *where(fields: readonly DocumentField[], after = ''): AsyncGenerator<Definition> {
    const sources = fields.map((where) => this.all({ after, where }));
    const heads = await Promise.all(sources.map(async (source) => (await source.next()).value));
    for (;;) {
      const first = heads.reduce((one, other) => (other && (!one || other.id < one.id) ? other : one), undefined);
      if (!first) return;
      yield first;
      for (const [at, source] of sources.entries()) {
        if (heads[at]?.id === first.id) heads[at] = (await source.next()).value;
      }
    }
  }

  /** Of one owner, with those on their way in or out; of all, without. */
  async count(ownerId?: string): Promise<number> {
    const where = ownerId === undefined ? { field: 'life', value: 'present' } : { field: 'ownerId', value: ownerId };
    return await this.#documents.count(SESSIONS, where);
  }

  /** With what `change` makes of it, whoever else changes it at the same time. `documents` are those of its owner. */
  async update(
    id: string,
    change: (there: Definition) => Definition,
    documents: DocumentStore = this.#documents,
  ): Promise<Definition> {
    for (;;) {
      const document = await documents.get(SESSIONS, id);
      if (!document) throw noSession(id);
      const next = change(parse(document.value, id));
      const condition = { ifRevision: document.revision };
      if ((await documents.put(SESSIONS, id, next, condition)) !== undefined) return next;
    }
  }

  /** The last step of deleting. */
  async remove({ id, ownerId, agentKey }: Definition): Promise<void> {
    const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
    if (key && sessionOf(key.value) === id) {
      await this.#documents.delete(KEYS, keyId(ownerId, agentKey), { ifRevision: key.revision });
    }
    await this.#documents.delete(SESSIONS, id);
  }

  async #read(id: string): Promise<Definition | undefined> {
    const document = isId(id) ? await this.#documents.get(SESSIONS, id) : undefined;
    return document && this.#cache.get(id, document.revision, () => parse(document.value, id));
  }
}

function parse(value: unknown, id: string): Definition {
  const definition = Definition.safeParse(value);
  if (definition.success) return definition.data;
  throw new CellaError(
    'STORAGE_FAILED',
    `The definition of session ${id} cannot be read: ${definition.error.message}.`,
  );
}

/** What somebody asks for may be any text. */
function isId(id: string): boolean {
  return Definition.shape.id.safeParse(id).success;
}

function sessionOf(value: unknown): string {
  return typeof value === 'object' && value !== null && 'session' in value ? String(value.session) : '';
}

/** Keys are any text, ids are not. */
function keyId(ownerId: string, agentKey: string): string {
  return createHash('sha256')
    .update(JSON.stringify([ownerId, agentKey]))
    .digest('hex');
}
