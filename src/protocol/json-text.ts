/** Text that somebody else has written, as the JSON that it may be. */

/** Undefined where it is none: the caller says what it had asked for. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // told by the caller
  }
}
