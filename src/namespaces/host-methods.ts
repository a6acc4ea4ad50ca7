/**
 * The calls that kernel code can make to the host: their checked parameters, context, pages of results, and the limits
 * that namespaces share.
 */

import { z } from 'zod';
import { inSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import { describeProblems } from '../protocol/parse.ts';
import type { PyValue } from '../protocol/py-values.ts';

export interface NamespaceCallContext {
  /** Aborted when the code no longer waits for the reply. */
  readonly signal: AbortSignal;
  /** Resolves when the result no longer takes memory here. Default: when the method returns. */
  readonly delivered?: Promise<void>;
  /** One line of progress, for readers of the cell's events. */
  progress(text: string): void;
  /** Runs work that waits for a person. The timeout of the cell is paused meanwhile. */
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
  /** Whether the caller has approved it. Never set for kernel code. */
  readonly approved?: boolean;
}

/** One call that kernel code can make: its checked parameters, and the work. The code may be hostile. */
interface HostMethod {
  perform(params: unknown, context: NamespaceCallContext): Promise<PyValue>;
}

/** The methods by the name in the call, such as `tools.list`. */
export type HostMethods = Readonly<Record<string, HostMethod>>;

export function hostMethod<T>(
  params: z.ZodType<T>,
  work: (params: T, context: NamespaceCallContext) => Promise<PyValue> | PyValue,
): HostMethod {
  return {
    perform: async (given, context) => {
      const checked = params.safeParse(given);
      if (checked.success) return await work(checked.data, context);
      const problems = describeProblems(checked.error, 'parameters');
      throw new CellaError('INVALID_OPTIONS', `This call is invalid: ${problems.slice(0, 5).join('; ')}.`);
    },
  };
}

const MAX_PAGE_ITEMS = 1000;
/** Characters of JSON in one page. A page may exceed it by one item, or by a few that were read together. */
export const MAX_PAGE_CHARACTERS = 1024 * 1024;

/** `after`: the name after which the page begins. */
export const PageRequest = z.strictObject({
  after: z.string().default(''),
  limit: z.int().min(1).max(MAX_PAGE_ITEMS).default(MAX_PAGE_ITEMS),
});

/** The first items. `more`: whether there are items after the last one. */
export async function toPage<T>(all: readonly T[], toValue: (thing: T) => PyValue, limit: number): Promise<PyValue> {
  const items: PyValue[] = [];
  let length = 0;
  for await (const thing of inSlices(all)) {
    if (items.length === limit || length >= MAX_PAGE_CHARACTERS) break;
    const value = toValue(thing);
    items.push(value);
    length += JSON.stringify(value).length;
  }
  return { items, more: items.length === limit || length >= MAX_PAGE_CHARACTERS };
}

/** The default of CELLA_MAX_SKILLS and CELLA_MAX_ARTIFACTS. */
export const DEFAULT_MAX_COUNT = 10_000;

interface CountLimit {
  readonly what: 'skills' | 'artifacts';
  readonly most: number;
  /** Concurrent callers may exceed the limit a little. */
  holds(count: number): Promise<boolean>;
  /** Whether it replaces an existing one. */
  replaces(): Promise<boolean>;
}

/** Throws QUOTA_EXCEEDED if the limit is reached and this would be a new item. */
export async function checkCountLimit({ what, most, holds, replaces }: CountLimit): Promise<void> {
  if (!(await holds(most)) || (await replaces())) return;
  const setting = `CELLA_MAX_${what.toUpperCase()}`;
  const message = `There are ${most} ${what}, which is the limit. Delete some, or ask the operator to raise ${setting}.`;
  throw new CellaError('QUOTA_EXCEEDED', message, { details: { quota: what, limit: most, setting } });
}

const MOST_CHARACTERS = 1000;

/** Throws INVALID_OPTIONS if the query is longer. */
export function checkQuery(query: string, where: string): void {
  if (query.length <= MOST_CHARACTERS) return;
  const message = `The query for ${where} has ${query.length} characters; the limit is ${MOST_CHARACTERS}.`;
  throw new CellaError('INVALID_OPTIONS', message, { advice: 'Search with a few words that say what it is about.' });
}
