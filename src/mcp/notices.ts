/** What a model must hear before it goes on: that its names came from a save, and which of them did not come back. */

import type { LostName } from '../protocol/checkpoint.ts';
import type { ResultEvent } from '../protocol/events.ts';

const MOST_NAMES = 40;

export function noticesOf({ recovered, woken }: ResultEvent): string[] {
  if (recovered) {
    const { cause, savedAgoMs, restored, lost } = recovered;
    const back =
      savedAgoMs === undefined
        ? 'There was no save: every name is gone.'
        : `Its last save, ${seconds(savedAgoMs)} old, came back: ${names(restored)}.`;
    return [`The kernel before this one has ended: ${cause.message} ${back} Nothing was run again.`, ...losses(lost)];
  }
  if (!woken) return [];
  const { savedAgoMs, restored, lost } = woken;
  return [`Names came back from a save of ${seconds(savedAgoMs)} ago: ${names(restored)}.`, ...losses(lost)];
}

function losses(lost: readonly LostName[]): string[] {
  if (lost.length === 0) return [];
  const told = lost.slice(0, MOST_NAMES).map(({ name, reason }) => `${name} (${reason})`);
  return [`Did not come back: ${told.join(', ')}${more(lost.length)}.`];
}

function names(all: readonly string[]): string {
  return all.length === 0 ? 'no names' : all.slice(0, MOST_NAMES).join(', ') + more(all.length);
}

function more(count: number): string {
  return count > MOST_NAMES ? ` and ${count - MOST_NAMES} more` : '';
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
}
