/** The items of a turn as a tree: what a subagent does lies under it. */

import type { ItemState } from './conversation.ts';

type Items = readonly ItemState[];

const DEEPEST = 16;

function depthOf(items: Items, id: string): number | undefined {
  for (const item of items) {
    if (item.id === id) return 1;
    const within = depthOf(item.items, id);
    if (within !== undefined) return within + 1;
  }
  return undefined;
}

/** Undefined where there is none. What is new is at the end, so it is looked for from there. */
export function findItem(items: Items, id: string): ItemState | undefined {
  for (let at = items.length - 1; at >= 0; at -= 1) {
    const item = items[at];
    if (item?.id === id) return item;
    const within = item && findItem(item.items, id);
    if (within) return within;
  }
  return undefined;
}

/** All others stay the same objects. */
export function changeItem(items: Items, id: string, change: (item: ItemState) => ItemState): Items {
  for (let at = items.length - 1; at >= 0; at -= 1) {
    const item = items[at];
    if (!item) continue;
    if (item.id === id) return items.with(at, change(item));
    const within = changeItem(item.items, id, change);
    if (within !== item.items) return items.with(at, { ...item, items: within });
  }
  return items;
}

/** One whose subagent is not known is one of the turn's own; and so is one that would lie too deep for any screen. */
export function addItem(items: Items, item: ItemState, parent: string | undefined): Items {
  const depth = parent === undefined ? undefined : depthOf(items, parent);
  if (parent === undefined || depth === undefined || depth >= DEEPEST) return [...items, item];
  return changeItem(items, parent, (above) => ({ ...above, items: [...above.items, item] }));
}

/** Nothing goes on once the turn has ended. */
export function endItems(items: Items, status: 'completed' | 'cancelled'): Items {
  return items.map((item) => {
    const within = endItems(item.items, status);
    const same = item.status !== 'running' && within.every((one, at) => one === item.items[at]);
    return same ? item : { ...item, items: within, status: item.status === 'running' ? status : item.status };
  });
}
