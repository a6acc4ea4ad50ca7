/** Text of programs and servers, as much of it as is shown. */

const MOST_SHOWN = 4000;

/** The end, which is where programs say what went wrong. */
export function tail(text: string): string {
  return text.length <= MOST_SHOWN ? text : `…${text.slice(-MOST_SHOWN).toWellFormed()}`;
}

/** The last line of output that is not all there. */
export function cutNote(bytes: number): string {
  return `\n[${bytes} more bytes were cut off: the tool wrote more than its output_limit]`;
}

/** Without the part of a character that a cut may have left at the end. */
export function wholeText(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true });
}

/** A tab is the one control character that a header may hold. */
export function hasControl(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return /[\0-\x08\x0a-\x1f\x7f]/.test(text);
}
