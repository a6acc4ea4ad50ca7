/**
 * What a rule allows: a glob over what a tool would do. It is matched as a whole, character by character, in bounded
 * time; and what a wildcard stands for is never anything that begins another command or leaves a folder.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Subject } from './subject.ts';

type Token = string | { readonly wild: 'one' | 'many' | 'deep' };

/** A pattern that stands for every use of a tool. */
export const ANY = '**';
/** Of a pattern, and of a text that is looked at: longer ones fit no rule. */
const MOST_CHARACTERS = 4000;
/** Of a pattern with wildcards. */
const MOST_TOKENS = 1000;
const MOST_WILDCARDS = 64;
/** In a command: letters, digits, blanks and a few signs; nothing that a shell would take for more than text. */
const PLAIN = /^[A-Za-z0-9_./:=@%+, -]$/;
/** Not to be seen, or not as what it is. */
export const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/u;

/** Allows this text again, and nothing else. */
export function exactly(text: string): string {
  return text.replaceAll(/[\\*?]/g, (sign) => `\\${sign}`);
}

/** `INVALID_REQUEST` where nobody could read it as what it is. */
export function checkPattern(pattern: string): void {
  const problem = problemOf(pattern);
  if (problem === undefined) return;
  const advice = 'See docs/permissions.md. What no pattern can say can still be allowed once.';
  throw new CellaError('INVALID_REQUEST', `No rule can have this pattern: ${problem}.`, { advice });
}

export function problemOf(pattern: string): string | undefined {
  if (pattern.trim() === '') return 'it is empty';
  if (HIDDEN.test(pattern)) return 'it has line breaks, or characters that cannot be seen';
  if (pattern.length > MOST_CHARACTERS) return `it has more than ${MOST_CHARACTERS} characters`;
  if ((pattern.match(/[*?]/g) ?? []).length > MOST_WILDCARDS) return `it has more than ${MOST_WILDCARDS} wildcards`;
  return undefined;
}

export function matches(pattern: string, { kind, text }: Subject): boolean {
  if (pattern === ANY) return true;
  if (problemOf(pattern) !== undefined || HIDDEN.test(text) || text.length > MOST_CHARACTERS) return false;
  const tokens = tokensOf(pattern, kind);
  // Which program it is has to be said.
  if (kind === 'command' && typeof tokens[0] !== 'string') return false;
  if (kind === 'path' && !isStraight(text)) return false;
  if (tokens.every((token) => typeof token === 'string')) return tokens.join('') === text;
  return tokens.length <= MOST_TOKENS && runs(tokens, [...text], kind);
}

/** `*` and `?` stand for themselves after a backslash, and so does a backslash. */
function tokensOf(pattern: string, kind: Subject['kind']): Token[] {
  const parts = pattern.match(/\\[\\*?]|\*\*|./gsu) ?? [];
  return parts.flatMap((part): Token[] => {
    if (part === '**') return kind === 'path' ? [{ wild: 'deep' }] : [{ wild: 'many' }];
    if (part === '*') return [{ wild: 'many' }];
    if (part === '?') return [{ wild: 'one' }];
    return [part.length === 2 && part.startsWith('\\') ? part.slice(1) : part];
  });
}

/** Keeps every place in the pattern that the text so far may have led to: no pattern takes long. */
function runs(tokens: readonly Token[], characters: readonly string[], kind: Subject['kind']): boolean {
  let places = new Uint8Array(tokens.length + 1);
  places[0] = 1;
  for (const [index, character] of characters.entries()) {
    const next = new Uint8Array(tokens.length + 1);
    const wilds = { one: false, many: false, deep: false };
    for (const wild of ['one', 'many', 'deep'] as const) {
      wilds[wild] = standsFor(wild, character, characters[index - 1], kind);
    }
    for (let place = places.indexOf(1); place >= 0 && place < tokens.length; place = places.indexOf(1, place + 1)) {
      const token = tokens[place] ?? '';
      // A wildcard may also stand for nothing.
      if (typeof token === 'object' && token.wild !== 'one') places[place + 1] = 1;
      if (typeof token === 'string' ? token === character : wilds[token.wild]) {
        next[typeof token === 'string' || token.wild === 'one' ? place + 1 : place] = 1;
      }
    }
    places = next;
  }
  let end = tokens.length;
  for (; end > 0 && places[end] !== 1; end--) {
    const token = tokens[end - 1];
    if (typeof token === 'string' || token?.wild === 'one') return false;
  }
  return places[end] === 1;
}

function standsFor(
  wild: 'one' | 'many' | 'deep',
  character: string,
  before: string | undefined,
  kind: Subject['kind'],
) {
  if (kind !== 'path') return PLAIN.test(character);
  // Hidden files have to be named.
  if (character === '.' && (before === undefined || before === '/')) return false;
  return character !== '/' || wild === 'deep';
}

/** Without a step back, and without a step that leads nowhere. */
function isStraight(path: string): boolean {
  return path
    .replace(/^\//, '')
    .split('/')
    .every((part) => part !== '' && part !== '.' && part !== '..');
}
