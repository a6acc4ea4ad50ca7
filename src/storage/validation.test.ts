import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { folderName } from './validation.ts';

const anyKey = fc.string({ unit: 'binary', minLength: 1, maxLength: 100 });

describe('the folder of an agent key', () => {
  it('is readable if the key is', () => {
    expect(folderName('handle:risk gate')).toMatch(/^handle-risk-gate-[0-9a-f]{16}$/);
    expect(folderName('Zoë')).toMatch(/^Zoe-[0-9a-f]{16}$/);
  });

  it.each(['..', '/', '../../etc', 'a/b', '.', '-', '😀', '\n', '\ud800', 'x'.repeat(5000)])(
    'is one plain name, whatever the key is: %j',
    (key) => {
      expect(folderName(key)).toMatch(/^[A-Za-z0-9][A-Za-z0-9-]{0,60}$/);
    },
  );

  it('is one plain name for any text, and always the same', () => {
    fc.assert(
      fc.property(anyKey, (key) => {
        expect(folderName(key)).toMatch(/^[A-Za-z0-9][A-Za-z0-9-]{0,60}$/);
        expect(folderName(key)).toBe(folderName(key));
      }),
    );
  });

  it('is never shared by two keys', () => {
    fc.assert(
      fc.property(anyKey, anyKey, (one, other) => {
        fc.pre(one !== other);
        expect(folderName(one)).not.toBe(folderName(other));
      }),
    );
    const alike = ['a b', 'a-b', 'a:b', 'A b', 'a  b', ' a b', 'e\u0301', '\u00e9', '\ud800', '\ud801', '\ufffd'];
    const names = alike.map((key) => folderName(key).toLowerCase());
    expect(new Set(names).size).toBe(alike.length);
  });
});
