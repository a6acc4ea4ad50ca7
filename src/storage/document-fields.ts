/**
 * The fields by which documents are found without reading all of their collection. A storage keeps an entry `field=value` for
 * each, in the step in which the document is written. To add a field, add a step to the schema of the file storage; Redis
 * indexes a collection anew where its entries are not complete.
 */

import { CellaError } from '../protocol/errors.ts';
import type { DocumentField } from './contract.ts';

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

/** The entry of those that are asked for. */
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
