/** What a wheel says of itself: its name, its version, and what it needs. */

import { packageName, parseRequirement, type Requirement } from '../../../protocol/requirement.ts';
import { Failed } from './failed.ts';
import { type MarkerEnvironment, parseMarker } from './markers.ts';
import { parseVersion, type Version } from './version.ts';

export interface Metadata {
  readonly name: string;
  readonly version: Version;
  readonly requiresPython: string | undefined;
  /** As written, with their markers. */
  readonly requires: readonly string[];
}

/** A package that needs more is no package. */
const MOST_REQUIRES = 5000;
/** Of a requirement, in a message. */
const LONGEST_SHOWN = 200;

/** Undefined where it names no package and version. */
export function parseMetadata(text: string): Metadata | undefined {
  const fields = fieldsOf(text);
  const first = (name: string) => fields.find(([field]) => field === name)?.[1];
  const version = parseVersion(first('version') ?? '');
  const name = packageName(first('name') ?? '');
  if (!version || name === '') return undefined;
  const requires = fields.filter(([field]) => field === 'requires-dist').map(([, value]) => value);
  if (requires.length > MOST_REQUIRES) return undefined;
  return { name, version, requiresPython: first('requires-python'), requires };
}

/** Up to the first empty line; a line that begins with a blank goes on with the one before. */
function fieldsOf(text: string): [name: string, value: string][] {
  const [head = ''] = text.replaceAll('\r\n', '\n').split('\n\n', 1);
  return head
    .replaceAll(/\n[ \t]+/g, ' ')
    .split('\n')
    .flatMap((line) => {
      const [, name, value] = /^([A-Za-z-]+):(.*)$/.exec(line) ?? [];
      return name === undefined || value === undefined ? [] : [[name.toLowerCase(), value.trim()]];
    });
}

/** What it needs on this Python, with these of its extras. */
export function requirementsOf(
  { requires }: Metadata,
  extras: readonly string[],
  environment: MarkerEnvironment,
  where: string,
): Requirement[] {
  return requires.flatMap((text) => {
    const end = text.indexOf(';');
    const written = end < 0 ? text : text.slice(0, end);
    const isNeeded = end < 0 ? () => true : parseMarker(text.slice(end + 1));
    if (!isNeeded) throw notUnderstood(text, where);
    if (!['', ...extras].some((extra) => isNeeded({ ...environment, extra }))) return [];
    if (written.includes('@')) throw new Failed(`${where} needs ${short(written)}: URLs are not taken`);
    return understood(written, where);
  });
}

function understood(text: string, where: string): Requirement {
  try {
    return parseRequirement(text);
  } catch {
    // What it has to say of a requirement is for whoever wrote it; here that is a package.
    throw notUnderstood(text, where);
  }
}

function notUnderstood(text: string, where: string): Failed {
  return new Failed(`${where} needs ${JSON.stringify(short(text))}, which cannot be understood`);
}

function short(text: string): string {
  const trimmed = text.trim();
  return trimmed.length > LONGEST_SHOWN ? `${trimmed.slice(0, LONGEST_SHOWN)}…` : trimmed;
}
