import { expect, it } from 'vitest';
import { refused, unreachable } from './connection.ts';

it('a Redis that refuses the password is reported as such, not as unreachable', () => {
  for (const answer of ['WRONGPASS invalid username-password pair', 'NOAUTH Authentication required.']) {
    const { code, message } = refused('redis://host:1', answer);
    expect(code).toBe('STORAGE_UNREACHABLE');
    expect(message).toMatch(/Correct the user and the password in its address\.$/);
  }
  expect(unreachable('redis://host:1', 'connection refused').message).toMatch(/Start it, or use file storage\.$/);
});
