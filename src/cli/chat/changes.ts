/** What going back has changed, name by name, as far as a person can see it. */

import type { Variable } from '../../session/api.ts';
import { cutToWidth } from '../command-output.ts';
import { escapeControls } from '../format.ts';

const LONGEST_VALUE = 24;
const MOST = 8;

export interface Change {
  readonly name: string;
  readonly before?: string;
  readonly after?: string;
}

export function changesBetween(before: readonly Variable[], after: readonly Variable[]): Change[] {
  const then = new Map(before.map((variable) => [variable.name, variable]));
  const now = new Map(after.map((variable) => [variable.name, variable]));
  const names = new Set([...then.keys(), ...now.keys()]);
  return [...names].flatMap((name) => {
    const [old, fresh] = [then.get(name), now.get(name)];
    if (old && fresh && looks(old) === looks(fresh)) return [];
    return [{ name, ...(old ? { before: old.preview } : {}), ...(fresh ? { after: fresh.preview } : {}) }];
  });
}

function looks({ type, preview, length, size }: Variable): string {
  return JSON.stringify([type, preview, length, size]);
}

export function changesToText(changes: readonly Change[]): string {
  if (changes.length === 0) return 'No name looks different.';
  const shown = changes.slice(0, MOST).map(changeToText).join(', ');
  return changes.length > MOST ? `${shown}, and ${changes.length - MOST} more.` : `${shown}.`;
}

function changeToText({ name, before, after }: Change): string {
  const [from = '', to = ''] = [before, after].map((value) => cutToWidth(escapeControls(value ?? ''), LONGEST_VALUE));
  if (after === undefined) return `${escapeControls(name)} is gone`;
  return before === undefined ? `${escapeControls(name)} is ${to} again` : `${escapeControls(name)}: ${from} → ${to}`;
}
