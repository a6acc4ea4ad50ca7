/**
 * Path patterns: `*` and `?` match within a name, `**` any folders, `{a,b}` either choice; `\` escapes. Dot files match like
 * any other name. Matching takes at most pattern length times path length.
 */

import { invalidPath } from './file-paths.ts';

const MOST_CHARACTERS = 1000;
const MOST_CHOICES = 200;
/** A limit for all choices together: each path is compared with all of them. */
const MOST_WRITTEN_OUT = 10_000;

type Token = { readonly kind: 'any' | 'one' } | { readonly kind: 'is'; readonly character: string };
type PatternPart = 'folders' | readonly Token[];

export class Glob {
  readonly #choices: readonly (readonly PatternPart[])[];

  constructor(pattern: string) {
    if (pattern.length > MOST_CHARACTERS)
      throw invalidPath(pattern, `a pattern can have at most ${MOST_CHARACTERS} characters`);
    const choices = choicesOf(pattern);
    const written = choices.reduce((total, choice) => total + choice.length, 0);
    if (written > MOST_WRITTEN_OUT)
      throw invalidPath(pattern, `it expands to more than ${MOST_WRITTEN_OUT} characters`);
    this.#choices = choices.map((choice) => choice.split('/').filter(named).map(partOf));
  }

  matches(path: string): boolean {
    const names = path.split('/');
    return this.#choices.some((parts) => fitsAll(parts, names, (part) => part === 'folders', nameFits));
  }

  /** Whether the pattern could match anything below the folder. */
  reaches(folder: string): boolean {
    const names = folder.split('/');
    return this.#choices.some((parts) => {
      for (const [index, name] of names.entries()) {
        const part = parts[index];
        if (part === 'folders') return true;
        if (part === undefined || !nameFits(part, name)) return false;
      }
      return parts.length > names.length;
    });
  }
}

const named = (part: string): boolean => part !== '' && part !== '.';

function partOf(text: string): PatternPart {
  if (text === '**') return 'folders';
  const tokens: Token[] = [];
  const characters = [...text];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] ?? '';
    if (character === '\\' && at + 1 < characters.length)
      tokens.push({ kind: 'is', character: characters[++at] ?? '' });
    else if (character === '*') tokens.push({ kind: 'any' });
    else if (character === '?') tokens.push({ kind: 'one' });
    else tokens.push({ kind: 'is', character });
  }
  return tokens;
}

function nameFits(part: PatternPart, name: string): boolean {
  if (part === 'folders') return true;
  const fits = (token: Token, character: string) => token.kind !== 'is' || token.character === character;
  return fitsAll(part, [...name], (token) => token.kind === 'any', fits);
}

/** Whether the tokens match all items; a star matches any number of items. Only the last star is retried. */
function fitsAll<T, I>(
  tokens: readonly T[],
  items: readonly I[],
  isStar: (token: T) => boolean,
  fits: (token: T, item: I) => boolean,
): boolean {
  let at = 0;
  let star = -1;
  let from = 0;
  for (let item = 0; item < items.length; ) {
    const token = tokens[at];
    if (token !== undefined && isStar(token)) {
      star = at++;
      from = item;
    } else if (token !== undefined && fits(token, items[item] as I)) {
      at++;
      item++;
    } else if (star >= 0) {
      at = star + 1;
      item = ++from;
    } else return false;
  }
  return tokens.slice(at).every(isStar);
}

/** Expands every `{a,b}`, from the outermost inwards. */
function choicesOf(pattern: string): string[] {
  const done: string[] = [];
  const left = [pattern];
  for (let text = left.pop(); text !== undefined; text = left.pop()) {
    const braces = firstBraces(text);
    if (!braces) done.push(text);
    else for (const choice of braces.choices) left.push(braces.before + choice + braces.after);
    if (done.length + left.length > MOST_CHOICES)
      throw invalidPath(pattern, `it has more than ${MOST_CHOICES} choices`);
  }
  return done;
}

function firstBraces(text: string): { before: string; choices: string[]; after: string } | undefined {
  let start = -1;
  let depth = 0;
  let from = 0;
  const choices: string[] = [];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '\\') at++;
    else if (character === '{') {
      if (depth++ > 0) continue;
      start = at;
      from = at + 1;
    } else if (character === ',' && depth === 1) {
      choices.push(text.slice(from, at));
      from = at + 1;
    } else if (character === '}' && depth > 0 && --depth === 0) {
      choices.push(text.slice(from, at));
      return { before: text.slice(0, start), choices, after: text.slice(at + 1) };
    }
  }
  return undefined;
}
