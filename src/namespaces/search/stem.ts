/** English words without their endings, after Porter (1980): `encrypted`, `encrypts` and `encryption` become one. */

const VOWEL = '(?:[aeiou]|(?<=[^aeiou])y)';
const MEASURE = /(?:[aeiou]|(?<=[^aeiouy])y)+(?:[^aeiouy]|(?<=[aeiou])y)+/g;
const HAS_VOWEL = new RegExp(VOWEL);
const DOUBLE = /([^aeioulsz])\1$/;
const SHORT = /(?:^|[^aeiou])[aeiouy][^aeiouwxy]$/;

const LONG_ENDINGS: readonly (readonly [string, string])[] = [
  ['ational', 'ate'],
  ['ization', 'ize'],
  ['isation', 'ize'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['iveness', 'ive'],
  ['tional', 'tion'],
  ['biliti', 'ble'],
  ['entli', 'ent'],
  ['ation', 'ate'],
  ['alism', 'al'],
  ['aliti', 'al'],
  ['ousli', 'ous'],
  ['iviti', 'ive'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['izer', 'ize'],
  ['iser', 'ize'],
  ['abli', 'able'],
  ['alli', 'al'],
  ['ator', 'ate'],
  ['eli', 'e'],
  ['ise', 'ize'],
];
const MIDDLE_ENDINGS: readonly (readonly [string, string])[] = [
  ['icate', 'ic'],
  ['ative', ''],
  ['alize', 'al'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ness', ''],
  ['ful', ''],
];
const LAST_ENDINGS = /(?:ement|ance|ence|able|ible|ment|ant|ent|ism|ate|iti|ous|ive|ize|al|er|ic|ou|(?<=[st])ion)$/;

/** Irregular words, and words that only seem to have an ending. */
const IRREGULAR: ReadonlyMap<string, string> = new Map(
  `animals animal|bought buy|broke broken|built build|children child|chosen choose|chose choose|drawn draw|drew draw
  driven drive|drove drive|feet foot|found find|gave give|gone go|grew grow|grown grow|heard hear|held hold|indices index
  kept keep|knew know|known know|led lead|lost lose|matrices matrix|men man|met meet|mice mouse|news news|paid pay
  people people|ran run|said say|sang sing|sent send|sold sell|spent spend|spoke speak|spoken speak|taken take|taught teach
  thought think|told tell|took take|vertices vertex|went go|women woman|won win|wrote write|written write|animal animal`
    .split(/[|\n]\s*/)
    .map((pair) => pair.split(' '))
    .map(([word = '', plain = '']) => [word, plain]),
);

/** Longer words are left as they are, so that they cannot slow down the patterns. */
const LONGEST_WORD = 64;

/** Roughly the number of syllables of a stem. */
function measure(stem: string): number {
  return stem.match(MEASURE)?.length ?? 0;
}

export function stem(word: string): string {
  const irregular = IRREGULAR.get(word);
  if (irregular !== undefined) return irregular;
  if (word.length > LONGEST_WORD) return word;
  if (word.length < 4) return word === 'ids' ? 'id' : word;
  let text = plural(word);
  text = pastAndGerund(text);
  if (text.endsWith('y') && HAS_VOWEL.test(text.slice(0, -1))) text = `${text.slice(0, -1)}i`;
  text = replaceEnding(text, LONG_ENDINGS);
  text = replaceEnding(text, MIDDLE_ENDINGS);
  const last = LAST_ENDINGS.exec(text);
  if (last !== null && measure(text.slice(0, last.index)) > 1) text = text.slice(0, last.index);
  return withoutFinalE(text);
}

function plural(word: string): string {
  if (word.endsWith('sses')) return word.slice(0, -2);
  if (word.endsWith('ies')) return word.length > 4 ? `${word.slice(0, -3)}y` : word.slice(0, -1);
  if (/(?:x|ch|sh)es$/.test(word)) return word.slice(0, -2);
  if (word.endsWith('s') && !/(?:ss|us|is)$/.test(word)) return word.slice(0, -1);
  return word;
}

function pastAndGerund(word: string): string {
  if (word.endsWith('eed')) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  const ending = /(?:ed|ing)$/.exec(word);
  if (ending === null) return word;
  const rest = word.slice(0, ending.index);
  if (!HAS_VOWEL.test(rest) || rest.length < 2) return word;
  if (/(?:at|bl|iz|is)$/.test(rest)) return `${rest}e`;
  if (DOUBLE.test(rest)) return rest.slice(0, -1);
  return measure(rest) === 1 && SHORT.test(rest) ? `${rest}e` : rest;
}

function replaceEnding(word: string, endings: readonly (readonly [string, string])[]): string {
  const found = endings.find(([ending]) => word.endsWith(ending));
  if (found === undefined) return word;
  const rest = word.slice(0, word.length - found[0].length);
  return measure(rest) > 0 ? rest + found[1] : word;
}

function withoutFinalE(word: string): string {
  if (!word.endsWith('e')) return word;
  const rest = word.slice(0, -1);
  const syllables = measure(rest);
  return syllables > 1 || (syllables === 1 && !SHORT.test(rest)) ? rest : word;
}
