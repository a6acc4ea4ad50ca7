/** Reads errors of unknown type, and sets or removes fields of objects. Works in browsers. */

/** The code of an error of Node or of the operating system, such as `ENOENT`; undefined for other errors. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** The message of an error, or the text of anything else that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

export function omitUndefined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

/** Numbers for which V8 may reserve room in an array. */
const SMALL_INDEX = /^[1-9]\d{0,3}$/;
const NINE = '9'.charCodeAt(0);

/**
 * Sets a key whose name comes from elsewhere. `__proto__` becomes a key like any other. With a simple assignment to `1023`,
 * V8 would reserve room for all smaller numbers, so that a dict with this one key would take 12 KB.
 */
export function setEntry<T>(dict: { [name: string]: T }, name: string, value: T): void {
  // Most names begin with a letter: the comparison is much faster than the pattern.
  const isSparse = name.charCodeAt(0) <= NINE && SMALL_INDEX.test(name) && !Object.hasOwn(dict, Number(name) - 1);
  if (!isSparse && name !== '__proto__') {
    dict[name] = value;
    return;
  }
  // V8 keeps the numbers of a dict in a table, not in an array, if one of them was hidden.
  Object.defineProperty(dict, name, { value, enumerable: false, configurable: true, writable: true });
  Object.defineProperty(dict, name, { enumerable: true });
}
