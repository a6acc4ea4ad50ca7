/** A line of the chat: a command with its argument, or anything else. */

export type ChatLine =
  | { readonly kind: 'command'; readonly name: string; readonly argument: string }
  | { readonly kind: 'text'; readonly text: string };

/** Only the space after a command's name, and that at the end, is no part of its argument. */
export function parseLine(line: string): ChatLine {
  const [, name, argument = ''] = /^\s*\/(\S*)\s*([\s\S]*)$/.exec(line) ?? [];
  return name === undefined ? { kind: 'text', text: line } : { kind: 'command', name, argument: argument.trimEnd() };
}
