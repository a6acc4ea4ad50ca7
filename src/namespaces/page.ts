/** What code lists, in pages: by number, and by how much there is to say of each. */

import { z } from 'zod';
import { inSlices } from '../lib/event-loop.ts';
import type { PyValue } from '../protocol/kernel-marshal.ts';

const MOST = 1000;
/** Of JSON. A page may have one thing more than fits, or a few that were read together with it. */
export const PAGE_CHARACTERS = 1024 * 1024;

/** `after`: a name. */
export const Listed = z.strictObject({ after: z.string().default(''), limit: z.int().min(1).max(MOST).default(MOST) });

/** The first of them. `more`: whether to ask for those after the last one. */
export async function pageValue<T>(all: readonly T[], toValue: (thing: T) => PyValue, limit: number): Promise<PyValue> {
  const items: PyValue[] = [];
  let length = 0;
  for await (const thing of inSlices(all)) {
    if (items.length === limit || length >= PAGE_CHARACTERS) break;
    const value = toValue(thing);
    items.push(value);
    length += JSON.stringify(value).length;
  }
  return { items, more: items.length === limit || length >= PAGE_CHARACTERS };
}
