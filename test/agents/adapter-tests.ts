/** What only an adapter can be asked for: a server names no conversation, and begins no turn that is stopped already. */

import { expect, test } from 'vitest';
import type { Suite } from './suite.ts';

export function adapterTests(suite: () => Suite): void {
  test('does not continue a conversation that does not exist, whatever its name', async () => {
    for (const conversation of ['00000000-0000-4000-8000-000000000000', '../../../etc/passwd', `$(touch x)'"\n`]) {
      const outcome = await suite().place.prompt('#plain', { conversation });
      expect(outcome).toMatchObject({ status: 'failed', error: { code: 'CONVERSATION_NOT_FOUND' } });
    }
    expect(suite().model.seen).toEqual([]);
  });

  test('a stop before the turn begins starts nothing', async () => {
    expect(await suite().place.prompt('#plain', { signal: AbortSignal.abort() })).toMatchObject({
      status: 'cancelled',
    });
    expect(suite().model.seen).toEqual([]);
  });
}
