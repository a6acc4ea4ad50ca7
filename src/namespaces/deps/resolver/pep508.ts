/** Environment markers (PEP 508), and the metadata of a wheel that uses them. */

import { giveWay, inSlices } from '../../../lib/event-loop.ts';
import { packageName, parseRequirement, type Requirement } from '../../../protocol/requirement.ts';
import { parseCondition, parseVersion, type Version } from './pep440.ts';
import { ResolutionError } from './resolver-limits.ts';

/** The values of markers, by their names in PEP 508. */
export type MarkerEnvironment = Readonly<Record<string, string>>;
export type Marker = (environment: MarkerEnvironment) => boolean;

interface Term {
  readonly name: string | undefined;
  readonly value: string;
}

const TOKEN = /\s*(?:([()])|(===|==|~=|!=|<=|>=|<|>|(?:not\s+in|in|and|or)\b)|"([^"]*)"|'([^']*)'|([a-z_.]+))/y;
/** Names from before PEP 508. */
const OLD_NAMES: Readonly<Record<string, string>> = {
  'os.name': 'os_name',
  'sys.platform': 'sys_platform',
  'platform.version': 'platform_version',
  'platform.machine': 'platform_machine',
  'platform.python_implementation': 'platform_python_implementation',
  python_implementation: 'platform_python_implementation',
};
const NAMES = new Set([
  ...['os_name', 'sys_platform', 'platform_machine', 'platform_python_implementation', 'platform_release'],
  ...['platform_system', 'platform_version', 'python_version', 'python_full_version'],
  ...['implementation_name', 'implementation_version', 'extra'],
]);
const LONGEST = 4000;
const DEEPEST = 50;

/** The marker, or undefined if the text is not one. */
export function parseMarker(text: string): Marker | undefined {
  const tokens = text.length > LONGEST ? undefined : tokenize(text);
  if (!tokens) return undefined;
  const reader = new MarkerReader(tokens);
  const marker = reader.either();
  return reader.atEnd ? marker : undefined;
}

type MarkerToken = { readonly kind: 'sign'; readonly text: string } | { readonly kind: 'term'; readonly term: Term };

function tokenize(text: string): MarkerToken[] | undefined {
  const tokens: MarkerToken[] = [];
  const end = text.trimEnd().length;
  for (let at = 0; at < end; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const [, bracket, operator, double, single, name] = TOKEN.exec(text) ?? [];
    const quoted = double ?? single;
    if (bracket !== undefined) tokens.push({ kind: 'sign', text: bracket });
    else if (operator !== undefined) tokens.push({ kind: 'sign', text: operator.replace(/\s+/, ' ') });
    else if (quoted !== undefined) tokens.push({ kind: 'term', term: { name: undefined, value: quoted } });
    else if (name === undefined) return undefined;
    else {
      const known = OLD_NAMES[name] ?? name;
      if (!NAMES.has(known)) return undefined;
      tokens.push({ kind: 'term', term: { name: known, value: '' } });
    }
  }
  return tokens;
}

class MarkerReader {
  readonly #tokens: readonly MarkerToken[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly MarkerToken[]) {
    this.#tokens = tokens;
  }

  get atEnd(): boolean {
    return this.#at === this.#tokens.length;
  }

  either(): Marker | undefined {
    return this.#joined(
      'or',
      () => this.#all(),
      (one, other) => (environment) => one(environment) || other(environment),
    );
  }

  #all(): Marker | undefined {
    return this.#joined(
      'and',
      () => this.#one(),
      (one, other) => (environment) => one(environment) && other(environment),
    );
  }

  #joined(word: string, part: () => Marker | undefined, join: (one: Marker, other: Marker) => Marker) {
    let marker = part();
    while (marker && this.#take(word)) {
      const other = part();
      marker = other && join(marker, other);
    }
    return marker;
  }

  #one(): Marker | undefined {
    if (this.#take('(')) {
      this.#depth += 1;
      const inner = this.#depth > DEEPEST ? undefined : this.either();
      this.#depth -= 1;
      return this.#take(')') ? inner : undefined;
    }
    const left = this.#term();
    const sign = this.#tokens[this.#at++];
    const right = this.#term();
    if (!left || !right || sign?.kind !== 'sign' || /^(?:[()]|and|or)$/.test(sign.text)) return undefined;
    return (environment) => holds(left, sign.text, right, environment);
  }

  #term(): Term | undefined {
    const token = this.#tokens[this.#at++];
    return token?.kind === 'term' ? token.term : undefined;
  }

  #take(text: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== 'sign' || token.text !== text) return false;
    this.#at += 1;
    return true;
  }
}

function holds(left: Term, operator: string, right: Term, environment: MarkerEnvironment): boolean {
  const isExtra = left.name === 'extra' || right.name === 'extra';
  const read = ({ name, value }: Term) => {
    const text = name === undefined ? value : (environment[name] ?? '');
    return isExtra ? packageName(text) : text;
  };
  const one = read(left);
  const other = read(right);
  if (operator === 'in') return other.includes(one);
  if (operator === 'not in') return !other.includes(one);
  const version = isExtra ? undefined : parseVersion(one);
  const condition = version && parseCondition(`${operator}${other}`);
  if (condition) return condition(version);
  switch (operator) {
    case '==':
    case '===':
      return one === other;
    case '!=':
      return one !== other;
    case '<':
      return one < other;
    case '<=':
      return one <= other;
    case '>':
      return one > other;
    case '>=':
      return one >= other;
    default:
      return false;
  }
}

export interface Metadata {
  readonly name: string;
  readonly version: Version;
  readonly requiresPython: string | undefined;
  /** As written, with their markers. */
  readonly requires: readonly string[];
}

/** The most requirements of one package. */
const MOST_REQUIRES = 5000;
/** The most characters of a requirement in a message. */
const LONGEST_SHOWN = 200;

/** The metadata, or undefined if it lacks a name or a version. */
export async function parseMetadata(text: string): Promise<Metadata | undefined> {
  const first = new Map<string, string>();
  const requires: string[] = [];
  for await (const [name, value] of fieldsOf(text)) {
    if (name === 'requires-dist') requires.push(value);
    else if (SINGLE.has(name) && !first.has(name)) first.set(name, value);
    if (requires.length > MOST_REQUIRES) return undefined;
  }
  const version = parseVersion(first.get('version') ?? '');
  const name = packageName(first.get('name') ?? '');
  if (!version || name === '') return undefined;
  return { name, version, requiresPython: first.get('requires-python'), requires };
}

/** The headers of which the first one counts. */
const SINGLE: ReadonlySet<string> = new Set(['name', 'version', 'requires-python']);

/** The headers, up to the first empty line. A line that begins with a space continues the one before. */
async function* fieldsOf(text: string): AsyncGenerator<readonly [name: string, value: string]> {
  const [head = ''] = text.replaceAll('\r\n', '\n').split('\n\n', 1);
  const lines = head.replaceAll(/\n[ \t]+/g, ' ');
  for (let at = 0; at < lines.length; ) {
    await giveWay();
    const next = lines.indexOf('\n', at);
    const end = next < 0 ? lines.length : next;
    const [, name, value] = /^([A-Za-z-]+):(.*)$/.exec(lines.slice(at, end)) ?? [];
    at = end + 1;
    if (name !== undefined && value !== undefined) yield [name.toLowerCase(), value.trim()];
  }
}

/** The requirements of a package on this Python, with these extras. */
export async function requirementsOf(
  { requires }: Metadata,
  extras: readonly string[],
  environment: MarkerEnvironment,
  where: string,
): Promise<Requirement[]> {
  const needed: Requirement[] = [];
  for await (const text of inSlices(requires)) {
    const end = text.indexOf(';');
    const written = end < 0 ? text : text.slice(0, end);
    const isNeeded = end < 0 ? () => true : parseMarker(text.slice(end + 1));
    if (!isNeeded) throw notUnderstood(text, where);
    if (!['', ...extras].some((extra) => isNeeded({ ...environment, extra }))) continue;
    if (written.includes('@')) throw new ResolutionError(`${where} needs ${short(written)}: URLs are not accepted`);
    needed.push(understood(written, where));
  }
  return needed;
}

function understood(text: string, where: string): Requirement {
  try {
    return parseRequirement(text);
  } catch {
    // The parser's message is for the author of the requirement, here the package.
    throw notUnderstood(text, where);
  }
}

function notUnderstood(text: string, where: string): ResolutionError {
  return new ResolutionError(`${where} needs ${JSON.stringify(short(text))}, which is not a valid requirement`);
}

function short(text: string): string {
  const trimmed = text.trim();
  return trimmed.length > LONGEST_SHOWN ? `${trimmed.slice(0, LONGEST_SHOWN)}…` : trimmed;
}
