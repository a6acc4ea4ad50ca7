/** The names of our keys. No prefix holds a bar, so the first bar ends it, and keys of two prefixes are never the same. */

/** An agent key, or an id, as part of a name: JSON tells all texts apart, lone surrogates too. */
export const quoted = (text: string): string => JSON.stringify(text);

export const unquoted = (text: string): string => String(JSON.parse(text));

export class Keys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Those of a scope: no key outside of it begins with the same, as JSON ends where it ends, whatever it holds. */
  scoped(name: string): Keys {
    return new Keys(this.of('scope', quoted(name)));
  }

  /** `part` is one of ours and holds no bar. What follows it may be any text. */
  of(part: string, ...rest: readonly string[]): string {
    return [this.#prefix, part, ...rest].join('|');
  }
}
