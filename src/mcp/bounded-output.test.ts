import { describe, expect, it } from 'vitest';
import { cutMiddle, HeadTailBuffer } from './bounded-output.ts';

describe('long text', () => {
  it('is whole as long as it fits', () => {
    const text = new HeadTailBuffer();
    text.append('one ');
    text.append('two');
    text.endLine();
    text.endLine();
    expect(String(text)).toBe('one two\n');
  });

  it('keeps its beginning and its end, and counts what is lost', () => {
    const text = new HeadTailBuffer();
    text.append('begin');
    for (let megabyte = 0; megabyte < 10; megabyte++) text.append('x'.repeat(1024 * 1024));
    text.append('end');
    const kept = String(text);
    expect(text.length).toBe(10 * 1024 * 1024 + 8);
    expect(kept.length).toBeLessThan(9 * 1024 * 1024);
    expect(kept).toMatch(/^beginx/);
    expect(text.lost).toBe(2_031_624);
    expect(cutMiddle(kept, 10, text.lost)).toContain(
      `[… ${(text.length + 42 - 10).toLocaleString('en')} characters left out`,
    );
    expect(kept).toMatch(/\[… 2,031,624 characters were not kept …\]\nx+end$/);
  });
});

describe('a cut', () => {
  it('leaves what is short alone', () => expect(cutMiddle('abc', 3)).toBe('abc'));

  it('shows the beginning and the end, and counts the middle', () => {
    expect(cutMiddle('aaaaaabbbbbbbbbbccc', 9)).toBe('aaaaaa\n[… 10 characters left out …]\nccc');
  });

  it('makes no half characters', () => expect(cutMiddle('😀😀😀😀', 3).isWellFormed()).toBe(true));
});
