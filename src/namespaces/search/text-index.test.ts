import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Lexicon } from './lexicon.ts';
import { stem } from './stem.ts';
import { TextIndex } from './text-index.ts';
import { wordsOf } from './words.ts';

const document = (id: string, text: string) => ({ id, title: id, text, extra: '' });
const ids = (found: { id: string }[]) => found.map(({ id }) => id);

describe('an index of texts', () => {
  const index = new TextIndex([
    document('resize_image', 'Changes width and height of a picture'),
    document('send_email', 'Sends a message with attachments'),
    document('parseInvoice', 'Reads the total of a bill'),
    { id: 'weather', title: 'weather', text: 'What to expect tomorrow', extra: 'city days' },
  ]);

  test('finds by the parts of a name, by the description, and by what belongs to it', () => {
    expect(ids(index.search('resize', 5))[0]).toBe('resize_image');
    expect(ids(index.search('attachment', 5))[0]).toBe('send_email');
    expect(ids(index.search('invoices', 5))[0]).toBe('parseInvoice');
    expect(ids(index.search('cities', 5))[0]).toBe('weather');
  });

  test('finds by other words', () => {
    expect(ids(index.search('make a photo smaller', 5))[0]).toBe('resize_image');
    expect(ids(index.search('umbrella', 5))[0]).toBe('weather');
  });

  test('forgives a slip of the keyboard', () => {
    expect(ids(index.search('atachment', 5))[0]).toBe('send_email');
    expect(ids(index.search('hieght', 5))[0]).toBe('resize_image');
  });

  test('gives no more than it is asked for, and nothing for nothing', () => {
    expect(index.search('picture message bill', 2)).toHaveLength(2);
    for (const query of ['', '   ', '?!', 'the of and', 'qqqq zzzz']) expect(index.search(query, 5)).toEqual([]);
    expect(new TextIndex([]).search('picture', 5)).toEqual([]);
  });

  test('takes words in any script', () => {
    const other = new TextIndex([document('gruss', 'Grüßt die Welt'), document('hello', '世界 こんにちは')]);
    expect(ids(other.search('grüßt', 5))).toEqual(['gruss']);
    expect(ids(other.search('世界', 5))).toEqual(['hello']);
  });

  test('answers whatever it is asked', () => {
    const units = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 100 });
    const anything = fc.oneof(
      units.map((codes) => String.fromCharCode(...codes)),
      fc.string({ maxLength: 100 }),
    );
    fc.assert(
      fc.property(anything, fc.integer({ min: 0, max: 9 }), (query, limit) => {
        const found = index.search(query, limit);
        expect(found.length).toBeLessThanOrEqual(limit);
        expect(found.every(({ score }) => score > 0 && Number.isFinite(score))).toBe(true);
      }),
    );
  });

  test('a word that is longer than words are is taken as it is, at once', () => {
    const word = `b${'a'.repeat(200_000)}ting`;
    expect(stem(word)).toBe(word);
    expect(ids(new TextIndex([document('long', word)]).search(word, 5))).toEqual(['long']);
  });

  test('names of the language itself are words like any other', () => {
    const other = new TextIndex([document('constructor', '__proto__ toString')]);
    expect(ids(other.search('constructor', 5))).toEqual(['constructor']);
    expect(other.search('hasOwnProperty', 5)).toEqual([]);
  });
});

describe('a lexicon', () => {
  const find = (lines: string, text: string, query: string) => {
    return new TextIndex([document('x', text)], new Lexicon(lines)).search(query, 1).length === 1;
  };

  test('ties the words of a line, phrases too', () => {
    expect(find('film movie', 'a movie', 'films')).toBe(true);
    expect(find('how_far distance', 'the distance', 'how far is it')).toBe(true);
    expect(find('how_far distance', 'the distance', 'how is it')).toBe(false);
  });

  test('ties a word that leads a line to the others, and not those to each other', () => {
    expect(find('cactus: plant water', 'a plant', 'cactus')).toBe(true);
    expect(find('cactus: plant water', 'a cactus', 'water')).toBe(true);
    expect(find('cactus: plant water', 'a plant', 'water')).toBe(false);
  });
});

test.each([
  ['encrypted', 'encrypt'],
  ['files', 'file'],
  ['directories', 'directory'],
  ['running', 'run'],
  ['organised', 'organize'],
  ['translation', 'translate'],
  ['written', 'write'],
])('%s and %s are one word', (one, other) => {
  expect(stem(one)).toBe(stem(other));
});

test('a name of code is taken apart', () => {
  expect(wordsOf('parseHTTPLog_v2 café')).toEqual(['parse', 'httplog', 'v2', 'cafe']);
});
