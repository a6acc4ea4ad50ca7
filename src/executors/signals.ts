/** Names of signals by their numbers. */

import { constants } from 'node:os';

/** Where a number has two names, the first is the one that people know: SIGABRT, not SIGIOT. */
const names = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

export function signalName(number: number): string {
  return names.get(number) ?? `signal ${number}`;
}
