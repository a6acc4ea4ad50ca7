/** Documents of one kind: parsed when they are read, with a cache by revision, and listed page by page. */

import type { z } from 'zod';
import { BoundedMap } from '../lib/bounded-map.ts';
import { inSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import type { DocumentCondition, DocumentStore, ListDocuments } from './contract.ts';

export interface Found<T> {
  readonly id: string;
  readonly revision: number;
  readonly value: T;
}

export class Collection<T> {
  readonly #documents: DocumentStore;
  readonly #name: string;
  readonly #schema: z.ZodType<T>;
  readonly #cache = new ParsedDocumentCache<T>();

  constructor(documents: DocumentStore, name: string, schema: z.ZodType<T>) {
    this.#documents = documents;
    this.#name = name;
    this.#schema = schema;
  }

  /** STORAGE_FAILED if it is damaged. */
  async get(id: string): Promise<Found<T> | undefined> {
    const found = await this.#documents.get(this.#name, id);
    if (!found) return undefined;
    const { revision } = found;
    return { id, revision, value: this.#cache.get(id, revision, () => this.#parse(id, found.value)) };
  }

  /** As `get`, but also undefined if it is damaged. */
  async tryGet(id: string): Promise<Found<T> | undefined> {
    try {
      return await this.get(id);
    } catch (error) {
      if (error instanceof CellaError && error.details.collection !== undefined) return undefined;
      throw error;
    }
  }

  /**
   * Writes what `change` makes of what is there, and gives it back. If another write comes first, `change` is applied to
   * its result. Nothing is written if it gives undefined.
   */
  async update(id: string, change: (there: T | undefined) => T | undefined): Promise<T | undefined> {
    for (;;) {
      const found = await this.get(id);
      const next = change(found?.value);
      if (next === undefined) return undefined;
      if ((await this.put(id, next, { ifRevision: found?.revision ?? 0 })) !== undefined) return next;
    }
  }

  put(id: string, value: T, condition?: DocumentCondition): Promise<number | undefined> {
    return this.#documents.put(this.#name, id, value, condition);
  }

  delete(id: string, condition?: DocumentCondition): Promise<boolean> {
    return this.#documents.delete(this.#name, id, condition);
  }

  /** One page, without damaged documents. */
  async page(options: ListDocuments): Promise<{ readonly items: Found<T>[]; readonly next?: string }> {
    const { documents, next } = await this.#documents.list(this.#name, options);
    const items = documents.flatMap(({ id, revision, value }) => {
      const parsed = this.#schema.safeParse(value);
      return parsed.success ? [{ id, revision, value: parsed.data }] : [];
    });
    return { items, next };
  }

  /** All readable documents whose id begins with `prefix`, in bounded memory. */
  all(prefix = ''): AsyncGenerator<Found<T>> {
    return this.#every({ prefix });
  }

  /** Documents with this value in this field. Others are not read. */
  where(field: string, value: string): AsyncGenerator<Found<T>> {
    return this.#every({ where: { field, value } });
  }

  async *#every(options: ListDocuments): AsyncGenerator<Found<T>> {
    for await (const { id, revision, value } of everyDocument(this.#documents, this.#name, options)) {
      const parsed = this.#schema.safeParse(value);
      if (parsed.success) yield { id, revision, value: parsed.data };
    }
  }

  /** Damaged ones, too. */
  async deleteAll(prefix: string): Promise<void> {
    for await (const { id } of everyDocument(this.#documents, this.#name, { prefix })) await this.delete(id);
  }

  #parse(id: string, value: unknown): T {
    const parsed = this.#schema.safeParse(value);
    if (parsed.success) return parsed.data;
    throw new CellaError(
      'STORAGE_FAILED',
      `Cannot use the document ${this.#name}/${id}: this version of Cella does not understand it.`,
      { details: { collection: this.#name, id } },
    );
  }
}

interface Parsed<T> {
  readonly revision: number;
  readonly value: T;
}

const MOST = 1000;

export class ParsedDocumentCache<T> {
  readonly #parsed = new BoundedMap<string, Parsed<T>>(MOST);

  /** The value is shared by all callers. Do not change it. */
  get(id: string, revision: number, parse: () => T): T {
    const known = this.#parsed.get(id);
    const value = known?.revision === revision ? known.value : parse();
    // Also if it was known: what is used stays.
    this.#parsed.set(id, { revision, value });
    return value;
  }
}

export interface EveryDocument {
  readonly id: string;
  readonly revision: number;
  /** Undefined if it is damaged: deleting all documents deletes those, too. */
  readonly value: unknown;
}

/** In the order of their ids. Documents that are deleted meanwhile may be missing. */
export async function* everyDocument(
  documents: DocumentStore,
  collection: string,
  { limit = 50, ...from }: ListDocuments = {},
): AsyncGenerator<EveryDocument> {
  for (let after: string | undefined = from.after ?? ''; after !== undefined; ) {
    const page = await documents.list(collection, { ...from, limit, after });
    yield* inSlices(page.documents);
    for (const { id } of page.damaged) yield { id, revision: 0, value: undefined };
    after = page.next;
  }
}
