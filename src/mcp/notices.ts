/** What a model must hear before it goes on: that its names came from a save, and which of them did not come back. */

import type { ResultEvent, Woken } from '../protocol/execution-events.ts';
import type { LostName } from '../protocol/kernel-state.ts';

const MOST_NAMES = 40;

export function noticesOf({ recovered, woken }: ResultEvent): string[] {
  if (recovered) {
    const ended = `The kernel before this one has ended: ${recovered.cause.message} Nothing is run again.`;
    return [ended, ...comebackOf(recovered)];
  }
  return woken && hasNews(woken) ? comebackOf(woken) : [];
}

/** A save without names brings nothing back, and takes nothing away. */
function hasNews({ savedAgoMs, restored, lost }: Woken): boolean {
  return savedAgoMs === undefined || restored.length + lost.length > 0;
}

function comebackOf({ savedAgoMs, restored, lost }: Woken): string[] {
  const back =
    savedAgoMs === undefined
      ? 'There is no save that can be read: every name is gone.'
      : `Names came back from a save of ${seconds(savedAgoMs)} ago: ${names(restored)}.`;
  return [back, ...losses(lost)];
}

function losses(lost: readonly LostName[]): string[] {
  if (lost.length === 0) return [];
  const told = lost
    .slice(0, MOST_NAMES)
    .map(({ name, reason }) => `${name === '*' ? 'what was saved' : name} (${reason})`);
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
