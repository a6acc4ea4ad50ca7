/** What people are shown of a request: all that decides what it does, and of long contents the beginning. */

/** Nobody reads more than this before they say yes. */
const MOST_CHARACTERS = 64 * 1024;
/** Of one text in the input, such as what a file is to hold. */
const MOST_TEXT = 16_000;
const MOST_ITEMS = 200;
const MOST_DEPTH = 8;

export function isTooLong(shown: unknown): boolean {
  return JSON.stringify(shown).length > MOST_CHARACTERS;
}

/** Long texts and lists are cut, and say so. */
export function shortened(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return cut(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MOST_DEPTH) return '…';
  if (Array.isArray(value)) {
    const items = value.slice(0, MOST_ITEMS).map((item) => shortened(item, depth + 1));
    return value.length > MOST_ITEMS ? [...items, `… (${value.length} items)`] : items;
  }
  const entries = Object.entries(value).slice(0, MOST_ITEMS);
  return Object.fromEntries(entries.map(([name, item]) => [name, shortened(item, depth + 1)]));
}

function cut(text: string): string {
  if (text.length <= MOST_TEXT) return text;
  return `${text.slice(0, MOST_TEXT).toWellFormed()}… (${text.length} characters)`;
}
