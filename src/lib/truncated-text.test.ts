import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TruncatedText } from './truncated-text.ts';

describe('a capture', () => {
  it('keeps everything up to its limit', () => {
    const capture = new TruncatedText(10);
    for (const text of ['01234', '', '56', '789']) capture.push(text);
    expect(capture.text).toBe('0123456789');
    expect(capture.cutBytes).toBe(0);
  });

  it('keeps the beginning and the end, and says how much it leaves out', () => {
    const capture = new TruncatedText(10);
    capture.push('aaaaa');
    capture.push('lost!');
    capture.push('zzzzz');
    expect(capture.text).toBe('aaaaa\n… 5 bytes left out …\nzzzzz');
    expect(capture.cutBytes).toBe(5);
  });

  it('is the same in one piece or in many', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 30 })), fc.integer({ min: 0, max: 60 }), (pieces, limit) => {
        const many = new TruncatedText(limit);
        for (const piece of pieces) many.push(piece);
        const one = new TruncatedText(limit);
        one.push(pieces.join(''));
        expect(many.text).toBe(one.text);
        expect(many.cutBytes).toBe(one.cutBytes);
      }),
    );
  });

  it('counts omitted bytes, not characters', () => {
    const capture = new TruncatedText(2);
    capture.push('aéééz');
    expect(capture.cutBytes).toBe(6);
  });

  it('with a limit of 0 keeps nothing and counts everything', () => {
    const capture = new TruncatedText(0);
    capture.push('text');
    expect(capture.cutBytes).toBe(4);
    expect(capture.text).not.toContain('text');
  });

  it('accounts for every byte of a long stream, and stays near its limit', () => {
    const limit = 1 << 20;
    const capture = new TruncatedText(limit);
    const piece = 'x'.repeat(99_991);
    for (let count = 0; count < 100; count++) capture.push(piece);
    const kept = capture.text.length - `\n… ${capture.cutBytes} bytes left out …\n`.length;
    expect(kept + capture.cutBytes).toBe(piece.length * 100);
    expect(kept).toBeLessThan(limit + 128 * 1024);
  });

  it('returns its last characters', () => {
    const capture = new TruncatedText(4);
    capture.push('first');
    capture.push('last');
    expect(capture.end(2)).toBe('st');
    expect(new TruncatedText(4).end(10)).toBe('');
  });

  it('accepts small pieces beyond a large limit as fast as before', () => {
    const limit = 8 * 1024 * 1024;
    const capture = new TruncatedText(limit);
    const pushed = (count: number) => {
      const begun = performance.now();
      for (let at = 0; at < count; at++) capture.push('ab');
      return performance.now() - begun;
    };
    pushed(limit / 2);
    expect(pushed(20_000)).toBeLessThan(1000);
    expect(capture.length).toBeLessThan(limit + 128 * 1024);
    expect(capture.length + capture.cutBytes).toBe(limit + 40_000);
  });
});
