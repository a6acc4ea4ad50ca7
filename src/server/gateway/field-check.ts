/**
 * Checks the fields of a message against its API's list during the scan. It parses nothing, so time and memory stay
 * proportional to the message's size. The lists are in `providers/`.
 */

import type { ScanListener } from '../../lib/json-scanner.ts';
import { CellaError } from '../../protocol/errors.ts';

/** What is allowed in one place. The items of a list count as being in the list's place. */
export type Shape = Fields | 'free';

export interface Fields {
  readonly fields: ReadonlyMap<string, Shape | (() => Shape)>;
  /** The allowed values of the field `type`. Default: any value. */
  readonly types?: RegExp | undefined;
  /** Values of `type` with which the provider reaches other hosts. */
  readonly remoteTypes?: RegExp | undefined;
  /** Whether the provider reaches other hosts for this value: always, or if it is an address other than a `data:` URL. */
  readonly remote?: 'always' | 'address' | undefined;
  /** Whether the text is the name of a model that the provider calls. */
  readonly isModel?: boolean | undefined;
}

type Nested = Readonly<Record<string, Shape | (() => Shape)>>;

/** `plain`: space-separated names of fields without objects. `nested`: fields with objects, or free-form fields. */
export function fields(plain: string, nested: Nested = {}, rules: Omit<Fields, 'fields'> = {}): Fields {
  const names = plain.split(/\s+/).filter((name) => name !== '');
  return { fields: new Map([...names.map((name) => [name, PLAIN] as const), ...Object.entries(nested)]), ...rules };
}

/** Marks the names as `free`: they contain data of the user or the model, such as a tool's input. */
export const freeFields = (names: string): Nested =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, 'free']));

/** A value of `type` that is one of these words. */
export const oneOfTypes = (...words: readonly string[]): RegExp =>
  new RegExp(`^(?:${words.join('|').replace(/\s+/g, '|')})$`);

/** A scalar or a list of scalars. Any field of an object in this place is unknown. */
const PLAIN: Fields = { fields: new Map() };
/** An address that the provider fetches, unless it is a `data:` URL. */
export const ADDRESS: Fields = { ...PLAIN, remote: 'address' };
/** A further model that the provider calls, besides that of the request. */
export const MODEL_NAME: Fields = { ...PLAIN, isModel: true };

/** Why a message is refused. `at`: the path, such as `messages[3].content[0].shell`. */
type Finding =
  | { readonly kind: 'unknown field'; readonly at: string }
  | { readonly kind: 'unknown type'; readonly at: string; readonly type: string }
  | { readonly kind: 'remote'; readonly at: string };

export interface FieldRules {
  readonly shape: Shape;
  /** Fields and types that the operator added. */
  readonly added?: ReadonlySet<string> | undefined;
  /** If false, anything that makes the provider reach other hosts is refused. */
  readonly mayReach?: boolean | undefined;
  /** Whether `snake_case` is another spelling of `camelCase`. */
  readonly anyCase?: boolean | undefined;
}

interface OpenValue {
  readonly shape: Fields;
  readonly isArray: boolean;
  /** For an object, its last key. For an array, `items` counts its items so far. */
  key: string;
  items: number;
}

/** Unknown names that errors may show. */
const SHOWN_NAME = /^[\w.$-]{1,80}$/;
const MOST_SHOWN = 200;
const MOST_MODELS = 50;

export class FieldChecker implements ScanListener {
  readonly mostKept = 256;
  readonly #rules: FieldRules;
  readonly #open: OpenValue[] = [];
  /** The shape of the next value. */
  #next: Shape;
  /** Depth within free-form data. */
  #free = 0;
  #isType = false;
  finding: Finding | undefined;
  /** Where the shape has names of models. */
  readonly models = new Set<string>();

  constructor(rules: FieldRules) {
    this.#rules = rules;
    this.#next = rules.shape;
  }

  get wantsKeys(): boolean {
    return this.#free === 0;
  }

  begin(kind: 'object' | 'array' | 'text' | 'other'): boolean {
    const isContainer = kind === 'object' || kind === 'array';
    if (this.#free > 0) {
      if (isContainer) this.#free++;
      return false;
    }
    const top = this.#open.at(-1);
    if (top?.isArray) top.items++;
    const shape = top?.isArray ? top.shape : this.#next;
    if (shape === 'free') {
      if (isContainer) this.#free = 1;
      return false;
    }
    if (this.#isType && kind !== 'text') {
      if (isContainer) this.#note({ kind: 'unknown type', at: this.#path(), type: '…' });
      this.#isType = false;
    }
    if (kind === 'object' && shape.remote === 'always') this.#note({ kind: 'remote', at: this.#path() });
    if (isContainer) this.#open.push({ shape, isArray: kind === 'array', key: '', items: 0 });
    this.#next = shape;
    return kind === 'text' && (this.#isType || shape.remote !== undefined || shape.isModel === true);
  }

  key(json: string): boolean {
    const top = this.#open.at(-1);
    if (!top) return true;
    const name = textOf(json);
    top.key = name ?? json;
    const found = name === undefined ? undefined : this.#lookUp(top.shape, name);
    if (found === undefined) this.#note({ kind: 'unknown field', at: this.#path() });
    this.#isType = name === 'type' && (top.shape.types ?? top.shape.remoteTypes) !== undefined;
    this.#next = found ?? PLAIN;
    return this.finding === undefined;
  }

  text(json: string): boolean {
    const { remote, isModel } = this.#next === 'free' ? PLAIN : this.#next;
    if (isModel) this.#noteModel(textOf(json) ?? '…');
    if (remote === 'always' || (remote === 'address' && !/^"data:/i.test(json))) {
      if (json.length > 2) this.#note({ kind: 'remote', at: this.#path() });
    }
    if (this.#isType) this.#checkType(textOf(json));
    return this.finding === undefined;
  }

  close(): void {
    if (this.#free > 0) this.#free--;
    else this.#open.pop();
    this.#isType = false;
  }

  #lookUp(shape: Fields, name: string): Shape | undefined {
    const { anyCase, added } = this.#rules;
    const spelled =
      anyCase && name.includes('_') ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
    const found = shape.fields.get(spelled) ?? (added?.has(name) ? 'free' : undefined);
    return typeof found === 'function' ? found() : found;
  }

  #checkType(type = ''): void {
    const { types, remoteTypes } = this.#open.at(-1)?.shape ?? PLAIN;
    this.#isType = false;
    if (remoteTypes?.test(type)) this.#note({ kind: 'remote', at: this.#path() });
    else if (types && !types.test(type) && !this.#rules.added?.has(type)) {
      this.#note({ kind: 'unknown type', at: this.#path(), type: SHOWN_NAME.test(type) ? type : '…' });
    }
  }

  #noteModel(name: string): void {
    if (this.models.size >= MOST_MODELS) this.#note({ kind: 'unknown field', at: this.#path() });
    else this.models.add(name);
  }

  #note(finding: Finding): void {
    if (finding.kind === 'remote' && this.#rules.mayReach !== false) return;
    this.finding ??= finding;
  }

  #path(): string {
    const steps = this.#open.map(({ isArray, items, key }) => (isArray ? `[${items - 1}]` : `.${shown(key)}`));
    return steps.join('').replace(/^\./, '').slice(0, MOST_SHOWN);
  }
}

const shown = (name: string): string => (SHOWN_NAME.test(name) ? name : '…');

/** Undefined if the text is cut off. */
function textOf(json: string): string | undefined {
  if (!json.includes('\\')) return json.length > 1 && json.endsWith('"') ? json.slice(1, -1) : undefined;
  try {
    return String(JSON.parse(json));
  } catch {
    return undefined;
  }
}

const HOW_TO_ADD =
  'If the provider has added it to its API, the operator can allow it with `--provider-field PROVIDER=NAME`; see docs/gateway.md.';

/** The error for a refused request. */
export function refusedRequest(finding: Finding): CellaError {
  const details = { field: finding.at, permanent: true };
  if (finding.kind === 'remote') {
    const message = `"${finding.at}" of the request makes the provider reach other hosts, and the agent's session has no network for that.`;
    const advice =
      'Leave it out, or prompt in a session whose sandbox has `network: "host"`; the operator can allow it in all sessions with `--provider-tools always`.';
    return new CellaError('FORBIDDEN', message, { details, advice });
  }
  return new CellaError('INVALID_REQUEST', `The request has ${described(finding)}.`, {
    details,
    advice: `Leave it out. ${HOW_TO_ADD}`,
  });
}

/** The error that replaces a refused answer and everything after it. */
export function refusedAnswer(finding: Finding): CellaError {
  const message = `The provider of the model failed: its answer has ${described(finding)}, so the gateway did not pass it on.`;
  return new CellaError('PROVIDER_FAILED', message, {
    details: { field: finding.at, permanent: true, heldBack: true },
    advice: HOW_TO_ADD,
  });
}

function described(finding: Finding): string {
  if (finding.kind === 'unknown type')
    return `"${finding.type}" in "${finding.at}", a type that the gateway does not know`;
  return `the field "${finding.at}", which the gateway does not know`;
}
