/** The calls that kernel code can make to the host: their checked parameters, their context, and pages of results. */

import { z } from 'zod';
import { inSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import type { PyValue } from '../protocol/py-values.ts';

export interface NamespaceCallContext {
  /** Aborted when the code no longer waits for the reply. */
  readonly signal: AbortSignal;
  /** One line of progress, for readers of the cell's events. */
  progress(text: string): void;
  /** Waits for a person: the time of the cell stands still meanwhile. */
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
  /** The caller has approved it; never set for kernel code. */
  readonly approved?: boolean;
}

/** One call that kernel code can make: its checked parameters, and the work. The code may be hostile. */
interface HostMethod {
  perform(params: unknown, context: NamespaceCallContext): Promise<PyValue>;
}

/** By name, as in the call: `tools.list`. */
export type HostMethods = Readonly<Record<string, HostMethod>>;

export function hostMethod<T>(
  params: z.ZodType<T>,
  work: (params: T, context: NamespaceCallContext) => Promise<PyValue> | PyValue,
): HostMethod {
  return {
    perform: async (given, context) => {
      const checked = params.safeParse(given);
      if (checked.success) return await work(checked.data, context);
      const problems = checked.error.issues.map(({ path, message }) => `${path.join('.') || 'parameters'}: ${message}`);
      throw new CellaError('INVALID_OPTIONS', `This call cannot be carried out: ${problems.slice(0, 5).join('; ')}.`);
    },
  };
}

const MAX_PAGE_ITEMS = 1000;
/** Of JSON. A page may have one thing more than fits, or a few that were read together with it. */
export const MAX_PAGE_CHARACTERS = 1024 * 1024;

/** `after`: a name. */
export const PageRequest = z.strictObject({
  after: z.string().default(''),
  limit: z.int().min(1).max(MAX_PAGE_ITEMS).default(MAX_PAGE_ITEMS),
});

/** The first of them. `more`: whether to ask for those after the last one. */
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
