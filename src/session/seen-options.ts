/** Options that were found to be good: what many sessions are opened with alike is checked once. */

/** A program opens its sessions in a few ways. */
const MOST = 4;
/** No option lies deeper. */
const DEEPEST = 8;

type Plain = Record<PropertyKey, unknown>;

interface Entry<T> {
  /** What the caller wrote, as it was then. */
  readonly given: Plain;
  readonly checked: T;
}

/** `own` is the option that differs from session to session, and is checked each time. */
export class SeenOptions<T extends object> {
  readonly #own: string;
  #entries: readonly Entry<T>[] = [];

  constructor(own: string) {
    this.#own = own;
  }

  /** What came of the same options before. */
  find(options: unknown): T | undefined {
    if (!isRecord(options)) return undefined;
    return this.#entries.find(({ given }) => isLike(options, given, this.#own))?.checked;
  }

  /** Only of plain data: whether anything else is still good, its looks do not tell. */
  add(options: unknown, checked: T): void {
    if (!isRecord(options)) return;
    const given = { ...options };
    delete given[this.#own];
    if (!isPlain(given, 0)) return;
    // Sessions share what came of it: nobody changes it from here on.
    this.#entries = [{ given: copyOf(given), checked: frozen(checked) }, ...this.#entries.slice(0, MOST - 1)];
  }
}

function isRecord(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype;
}

function isPlain(value: unknown, depth: number): boolean {
  if (depth > DEEPEST) return false;
  if (isList(value)) return value.every((item) => isPlain(item, depth + 1));
  if (isRecord(value)) return Reflect.ownKeys(value).every((name) => isPlain(value[name], depth + 1));
  return value === null || (typeof value !== 'object' && typeof value !== 'function');
}

function copyOf<T>(value: T): T;
function copyOf(value: unknown): unknown {
  if (isList(value)) return value.map((item) => copyOf(item));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Reflect.ownKeys(value).map((name) => [name, copyOf(value[name])]));
}

/** Also names that are hidden, or symbols: an option by such a name is one that was not there. */
function isLike(value: unknown, known: unknown, apart?: string): boolean {
  if (isList(known)) {
    return isList(value) && value.length === known.length && known.every((item, at) => isLike(value[at], item));
  }
  if (!isRecord(known)) return Object.is(value, known);
  if (!isRecord(value)) return false;
  const names = Reflect.ownKeys(value);
  const left = apart !== undefined && Object.hasOwn(value, apart) ? 1 : 0;
  if (names.length - left !== Reflect.ownKeys(known).length) return false;
  return names.every((name) => name === apart || (Object.hasOwn(known, name) && isLike(value[name], known[name])));
}

function frozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (isList(part) || isRecord(part)) frozen(part);
  return Object.freeze(value);
}
