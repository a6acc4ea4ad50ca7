/** What an agent has of the server that it is prompted by: the session's kernel, and an end to its time. */

import { expect, test } from 'vitest';
import { allow, type Suite, textsOf } from './suite.ts';

export function serverTests(suite: () => Suite): void {
  test('what it computes is there for the person, and the other way round', async () => {
    const { place } = suite();
    await place.run('from_person = 20');
    const outcome = await place.prompt('#cell from_agent = from_person + 1; print(from_agent)', { permit: allow });
    expect(textsOf(outcome).at(-1)).toContain('21');
    expect(await place.run('from_agent * 2')).toBe(42);
  });

  test('a provider that hangs ends with the time of the turn', async () => {
    const outcome = await suite().place.prompt('#hang', { timeoutMs: 2500 });
    expect(outcome.status).toBe('timed_out');
  });
}
