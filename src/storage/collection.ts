/**
 * Documents: the limits and indexed fields that every storage shares, and typed collections that parse on read,
 * with a cache by revision, and listed page by page.
 */

import type { z } from 'zod';
import { BoundedMap } from '../lib/bounded-map.ts';
import { inSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import type {
  DamagedDocument,
  DocumentCondition,
  DocumentField,
  DocumentPage,
  DocumentStore,
  ListDocuments,
  StoredDocument,
} from './contract.ts';

const MOST_BYTES = 1024 * 1024;
const MOST_IN_PAGE = 1000;
const COLLECTION = /^[a-z0-9-]{1,64}$/;
const ID = /^[!-~]{1,512}$/;
const PREFIX = /^[!-~]{0,512}$/;
/** Sorts after every character that an id can contain. */
const LAST = '\x7f';

/** A page ends after the document that brings it to this many characters. */
export const PAGE_CHARACTERS = 1024 * 1024;

export function checkCollection(collection: string): string {
  return checkPattern(collection, COLLECTION, 'collection of documents', 'use 1 to 64 of a-z, 0-9 and -');
}

export function checkId(id: string): string {
  return checkPattern(id, ID, 'id of a document', 'use 1 to 512 printable ASCII characters without blanks');
}

interface Range {
  /** Ids after this one; with `inclusive`, also this one. */
  readonly from: string;
  readonly inclusive: boolean;
  /** Ids before this one. */
  readonly to: string;
  readonly limit: number;
}

export function rangeOf({ prefix = '', after = '', limit = 100 }: ListDocuments): Range {
  checkPattern(prefix, PREFIX, 'beginning of ids', 'use at most 512 printable ASCII characters without blanks');
  checkPattern(after, PREFIX, 'id of a document', 'use at most 512 printable ASCII characters without blanks');
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_IN_PAGE) {
    throw new CellaError('INVALID_OPTIONS', `limit is ${limit}; it must be a whole number from 1 to ${MOST_IN_PAGE}.`);
  }
  const inclusive = after < prefix;
  return { from: inclusive ? prefix : after, inclusive, to: prefix + LAST, limit };
}

export function documentText(collection: string, id: string, value: unknown): string {
  const refuse = (why: string, cause?: unknown): never => {
    throw new CellaError('STORAGE_FAILED', `Cannot store the document ${collection}/${id}: ${why}.`, { cause });
  };
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    refuse('it cannot be written as JSON', cause);
  }
  if (text === undefined) return refuse('it cannot be written as JSON');
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_BYTES) refuse(`it has ${bytes} bytes; the limit is ${MOST_BYTES}`);
  return text;
}

export interface KeptDocument {
  readonly id: string;
  /** Undefined if the document is damaged. */
  readonly revision: number | undefined;
  readonly text: string;
}

/** Fails if it is corrupt. */
export function readDocument(collection: string, kept: KeptDocument, where: string): StoredDocument {
  const parsed = parseDocument(kept);
  if ('revision' in parsed) return parsed;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot read the document ${collection}/${kept.id} in ${where}: ${parsed.reason}. Bring back a copy, or delete it.`,
    { details: { collection, id: kept.id } },
  );
}

export function pageOf(kept: readonly KeptDocument[], more: boolean): DocumentPage {
  const documents: StoredDocument[] = [];
  const damaged: DamagedDocument[] = [];
  for (const parsed of kept.map(parseDocument)) {
    if ('revision' in parsed) documents.push(parsed);
    else damaged.push(parsed);
  }
  const next = more ? kept.at(-1)?.id : undefined;
  return { documents, damaged, next };
}

function parseDocument({ id, revision, text }: KeptDocument): StoredDocument | DamagedDocument {
  if (revision === undefined) return { id, reason: 'it has no revision' };
  try {
    return { id, revision, value: JSON.parse(text) };
  } catch {
    return { id, reason: 'it is not JSON' };
  }
}

function checkPattern(name: string, pattern: RegExp, what: string, expected: string): string {
  if (pattern.test(name)) return name;
  const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
  throw new CellaError('INVALID_NAME', `${shown} cannot be the ${what}: ${expected}.`);
}

/** `a.b` is the field `b` of each element of the list `a`. */
const FIELDS: Readonly<Partial<Record<string, readonly string[]>>> = {
  sessions: ['ownerId', 'forkOf', 'life', 'shares.userId', 'shares.role'],
  tokens: ['userId'],
  'session-tokens': ['session', 'task', 'executor', 'userId'],
  logins: ['userId'],
  'login-codes': ['userId'],
};

export const indexedCollections: readonly string[] = Object.keys(FIELDS);

export const isIndexed = (collection: string): boolean => Object.hasOwn(FIELDS, collection);

export function entriesOf(collection: string, value: unknown): string[] {
  const entries = (FIELDS[collection] ?? []).flatMap((field) =>
    valuesAt(value, field.split('.')).map((found) => `${field}=${found}`),
  );
  return [...new Set(entries)];
}

/** The index entry for the requested field. */
export function entryOf(collection: string, { field, value }: DocumentField): string {
  if (FIELDS[collection]?.includes(field)) return `${field}=${value}`;
  throw new CellaError('INVALID_OPTIONS', `Documents of ${collection} cannot be found by ${JSON.stringify(field)}.`);
}

function valuesAt(value: unknown, [first = '', ...rest]: readonly string[]): string[] {
  const found: unknown =
    typeof value === 'object' && value !== null && Object.hasOwn(value, first) ? Reflect.get(value, first) : undefined;
  if (rest.length > 0) return Array.isArray(found) ? found.flatMap((element) => valuesAt(element, rest)) : [];
  return typeof found === 'string' && !found.includes('\n') ? [found] : [];
}

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

  /** Like `get`, but undefined for a damaged document. */
  async tryGet(id: string): Promise<Found<T> | undefined> {
    try {
      return await this.get(id);
    } catch (error) {
      if (error instanceof CellaError && error.details.collection !== undefined) return undefined;
      throw error;
    }
  }

  /**
   * Replaces the value with the result of `change` and returns it. If another write comes first, applies `change` to its
   * result. Writes nothing if `change` returns undefined.
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

  /** All readable documents with this id prefix, in bounded memory. */
  all(prefix = ''): AsyncGenerator<Found<T>> {
    return this.#every({ prefix });
  }

  /** The values of these documents, sorted by id. */
  async list(prefix: string): Promise<T[]> {
    const values: T[] = [];
    for await (const { value } of this.all(prefix)) values.push(value);
    return values;
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
    // Also for a cached document, so that the most recently used ones stay in the cache.
    this.#parsed.set(id, { revision, value });
    return value;
  }
}

export interface EveryDocument {
  readonly id: string;
  readonly revision: number;
  /** Undefined if it is damaged. Deleting all documents deletes damaged ones too. */
  readonly value: unknown;
}

/** Sorted by id. Documents that are deleted during the listing may be missing. */
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
