import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { associatedBytes, masterKeyOf, seal, unseal } from './master-key.ts';

const key = masterKeyOf(randomBytes(32));
const label = { userId: 'ada~k3v7q2mzp4ab', name: 'anthropic' };

describe('seal', () => {
  it('decrypts to the input, and never encrypts to the same text twice', () => {
    const [one, two] = [seal('sk-123', key, label), seal('sk-123', key, label)];
    expect(unseal(one, key, label)).toBe('sk-123');
    expect(one.nonce).not.toBe(two.nonce);
    expect(one.box).not.toBe(two.box);
    expect(one.keyId).toBe(key.id);
  });

  it('cannot be decrypted with another key or label, or after a change of any bit', () => {
    const sealed = seal('sk-123', key, label);
    expect(() => unseal(sealed, masterKeyOf(randomBytes(32)), label)).toThrow();
    expect(() => unseal(sealed, key, { ...label, userId: 'bob~k3v7q2mzp4ab' })).toThrow();
    expect(() => unseal(sealed, key, { ...label, name: 'openai' })).toThrow();
    const bytes = Buffer.from(sealed.box, 'base64');
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => unseal({ ...sealed, box: changed.toString('base64') }, key, label)).toThrow();
    }
    for (let end = 0; end < bytes.length; end += 1) {
      expect(() => unseal({ ...sealed, box: bytes.subarray(0, end).toString('base64') }, key, label)).toThrow();
    }
  });

  it('has different labels for different pairs', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 8 });
    fc.assert(
      fc.property(text, text, text, text, (userId, name, otherUser, otherName) => {
        const same = userId === otherUser && name === otherName;
        expect(associatedBytes({ userId, name }).equals(associatedBytes({ userId: otherUser, name: otherName }))).toBe(
          same,
        );
      }),
    );
    const [one, two] = [associatedBytes({ userId: 'ab', name: 'c' }), associatedBytes({ userId: 'a', name: 'bc' })];
    expect(one.equals(two)).toBe(false);
  });
});
