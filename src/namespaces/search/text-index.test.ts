import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { Lexicon } from './lexicon.ts';
import { stem } from './stem.ts';
import { TextIndex, wordsOf } from './text-index.ts';

const document = (id: string, text: string) => ({ id, title: id, text, extra: '' });
const ids = async (found: Promise<{ id: string }[]>) => (await found).map(({ id }) => id);

describe('an index of texts', () => {
  const made = TextIndex.of([
    document('resize_image', 'Changes width and height of a picture'),
    document('send_email', 'Sends a message with attachments'),
    document('parseInvoice', 'Reads the total of a bill'),
    { id: 'weather', title: 'weather', text: 'What to expect tomorrow', extra: 'city days' },
  ]);

  let index: TextIndex;
  beforeAll(async () => {
    index = await made;
  });

  test('finds by parts of a name, by description, and by related words', async () => {
    expect((await ids(index.search('resize', 5)))[0]).toBe('resize_image');
    expect((await ids(index.search('attachment', 5)))[0]).toBe('send_email');
    expect((await ids(index.search('invoices', 5)))[0]).toBe('parseInvoice');
    expect((await ids(index.search('cities', 5)))[0]).toBe('weather');
  });

  test('finds by other words', async () => {
    expect((await ids(index.search('make a photo smaller', 5)))[0]).toBe('resize_image');
    expect((await ids(index.search('umbrella', 5)))[0]).toBe('weather');
  });

  test('tolerates typing errors', async () => {
    expect((await ids(index.search('atachment', 5)))[0]).toBe('send_email');
    expect((await ids(index.search('hieght', 5)))[0]).toBe('resize_image');
  });

  test('returns no more than requested, and nothing for an empty query', async () => {
    expect(await index.search('picture message bill', 2)).toHaveLength(2);
    for (const query of ['', '   ', '?!', 'the of and', 'qqqq zzzz']) expect(await index.search(query, 5)).toEqual([]);
    expect(await (await TextIndex.of([])).search('picture', 5)).toEqual([]);
  });

  test('accepts words in any script', async () => {
    const other = await TextIndex.of([document('gruss', 'Grüßt die Welt'), document('hello', '世界 こんにちは')]);
    expect(await ids(other.search('grüßt', 5))).toEqual(['gruss']);
    expect(await ids(other.search('世界', 5))).toEqual(['hello']);
  });

  test('returns for any query', async () => {
    const units = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 100 });
    const anything = fc.oneof(
      units.map((codes) => String.fromCharCode(...codes)),
      fc.string({ maxLength: 100 }),
    );
    await fc.assert(
      fc.asyncProperty(anything, fc.integer({ min: 0, max: 9 }), async (query, limit) => {
        const found = await index.search(query, limit);
        expect(found.length).toBeLessThanOrEqual(limit);
        expect(found.every(({ score }) => score > 0 && Number.isFinite(score))).toBe(true);
      }),
    );
  });

  test('a word that is too long is not stemmed', async () => {
    const word = `b${'a'.repeat(200_000)}ting`;
    expect(stem(word)).toBe(word);
    expect(await ids((await TextIndex.of([document('long', word)])).search(word, 5))).toEqual(['long']);
  });

  test('names of JavaScript’s own properties are words like any other', async () => {
    const other = await TextIndex.of([document('constructor', '__proto__ toString')]);
    expect(await ids(other.search('constructor', 5))).toEqual(['constructor']);
    expect(await other.search('hasOwnProperty', 5)).toEqual([]);
  });
});

describe('a lexicon', () => {
  const find = async (lines: string, text: string, query: string) => {
    const index = await TextIndex.of([document('x', text)], new Lexicon(lines));
    return (await index.search(query, 1)).length === 1;
  };

  test('relates the words of a line, phrases too', async () => {
    expect(await find('film movie', 'a movie', 'films')).toBe(true);
    expect(await find('how_far distance', 'the distance', 'how far is it')).toBe(true);
    expect(await find('how_far distance', 'the distance', 'how is it')).toBe(false);
  });

  test('relates a leading word to the others, and not those to each other', async () => {
    expect(await find('cactus: plant water', 'a plant', 'cactus')).toBe(true);
    expect(await find('cactus: plant water', 'a cactus', 'water')).toBe(true);
    expect(await find('cactus: plant water', 'a plant', 'water')).toBe(false);
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
])('%s and %s are the same word', (one, other) => {
  expect(stem(one)).toBe(stem(other));
});

test('an identifier is split into words', async () => {
  expect(wordsOf('parseHTTPLog_v2 café')).toEqual(['parse', 'httplog', 'v2', 'cafe']);
});
