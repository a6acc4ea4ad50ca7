/** Finds variables that begin with CELLA_ and are not settings, most likely mistyped. */

import { suggest } from '../lib/suggest.ts';
import { allSettings } from './settings-table.ts';

export interface UnknownVariable {
  readonly name: string;
  /** The one that was most likely meant. */
  readonly meant?: string;
}

const PREFIX = 'CELLA_';
/** Names go on with what the tool calls its secret. */
const CREDENTIAL = 'CELLA_CREDENTIAL_';
/** By which the programs of an agent are found; a server that an agent starts has them. */
const MARKS = new Set(['CELLA_COMMAND', 'CELLA_ENVIRONMENT']);

const known = new Map(
  allSettings.flatMap(({ variable }) => (variable?.startsWith(PREFIX) ? [[bare(variable), variable]] : [])),
);

export function unknownVariables(names: readonly string[]): UnknownVariable[] {
  return names.filter(isUnknown).map((name) => {
    const meant = known.get(suggest(bare(name), [...known.keys()]) ?? '');
    return { name, meant };
  });
}

/** One line for a person. */
export function describeUnknownVariable({ name, meant }: UnknownVariable): string {
  // A name can hold anything but `=`.
  const shown = name.replace(/[^\x21-\x7e]/g, '?').slice(0, 100);
  const guess = meant === undefined ? 'See docs/settings.md for all there are.' : `Did you mean ${meant}?`;
  return `${shown} is no setting, and does nothing. ${guess}`;
}

function isUnknown(name: string): boolean {
  return name.startsWith(PREFIX) && !known.has(bare(name)) && !name.startsWith(CREDENTIAL) && !MARKS.has(name);
}

function bare(variable: string): string {
  return variable.slice(PREFIX.length).toLowerCase();
}
