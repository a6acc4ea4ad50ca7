import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LineSplitter } from './line-splitter.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** The lines as text, and `null` for one that was too long. */
function decode(limit: number, chunks: Iterable<Uint8Array>): (string | null)[] {
  const decoder = new LineSplitter(limit);
  const shown: (string | null)[] = [];
  for (const chunk of chunks) {
    for (const line of decoder.push(chunk)) {
      shown.push(line.kind === 'cut' ? null : new TextDecoder().decode(line.bytes));
    }
  }
  return shown;
}

function* cutAt(bytes: Uint8Array, places: readonly number[]): Generator<Uint8Array> {
  const sorted = [...places].map((place) => place % (bytes.length + 1)).sort((a, b) => a - b);
  let from = 0;
  for (const place of [...sorted, bytes.length]) {
    yield bytes.slice(from, place);
    from = place;
  }
}

describe('lines', () => {
  test('are the same wherever the bytes are cut, also inside a character', () => {
    const line = fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\n', ''));
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat()), fc.integer({ min: 1, max: 40 }), (lines, places, limit) => {
        const bytes = bytesOf(lines.map((text) => `${text}\n`).join(''));
        const expected = lines.map((text) => (bytesOf(text).length > limit ? null : text));
        expect(decode(limit, cutAt(bytes, places))).toEqual(expected);
      }),
    );
  });

  test('are the same byte by byte as in one piece', () => {
    const bytes = bytesOf('{"a":"é😀"}\n\nzweite\n');
    const single = Array.from(bytes, (_, at) => bytes.slice(at, at + 1));
    expect(decode(100, single)).toEqual(decode(100, [bytes]));
    expect(decode(100, single)).toEqual(['{"a":"é😀"}', '', 'zweite']);
  });

  test('that are too long return their beginning', () => {
    const bytes = bytesOf('0123456789abcdef\nnext\n');
    for (const size of [1, 7, 10, 11, bytes.length]) {
      const splitter = new LineSplitter(10);
      const shown: [string, string][] = [];
      for (let at = 0; at < bytes.length; at += size) {
        for (const { kind, bytes: line } of splitter.push(bytes.slice(at, at + size)))
          shown.push([kind, new TextDecoder().decode(line)]);
      }
      expect(shown).toEqual([
        ['cut', '0123456789'],
        ['line', 'next'],
      ]);
    }
  });

  test('of 100 MB are reported once, and not held in memory', () => {
    const decoder = new LineSplitter(1024);
    const chunk = new Uint8Array(64 * 1024).fill(0x78);
    let cuts = 0;
    for (let sent = 0; sent < 100 * 1024 * 1024; sent += chunk.length) {
      cuts += decoder.push(chunk).length;
      expect(decoder.heldBytes).toBe(0);
    }
    expect(cuts).toBe(1);
    const [next] = decoder.push(bytesOf('rest of it\nnext\n'));
    expect(next?.kind === 'line' && new TextDecoder().decode(next.bytes)).toBe('next');
  });

  test('without a newline at the end are returned by end()', () => {
    const decoder = new LineSplitter(10);
    expect(decoder.push(bytesOf('a\nlast'))).toHaveLength(1);
    const last = decoder.end();
    expect(last?.kind === 'line' && new TextDecoder().decode(last.bytes)).toBe('last');
    expect(decoder.end()).toBeUndefined();
  });
});
