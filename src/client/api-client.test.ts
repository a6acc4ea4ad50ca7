/** Requests of the client are typed by the table of routes. */

import { expect, it } from 'vitest';
import type { ApiClient, SessionApiClient } from './api-client.ts';

/** Compiled, and not run. */
async function typed(api: ApiClient, session: SessionApiClient): Promise<void> {
  const { id } = await api.call('createSession');
  await api.call('createSession', { body: { agentKey: 'a' } });
  // @ts-expect-error the path names a session
  await api.call('getSession');
  // @ts-expect-error a field that the route does not have
  await api.call('getSession', { params: { id, name: 'x' } });
  // @ts-expect-error the body is required
  await api.call('executeCode', { params: { id } });
  await api.call('executeCode', { params: { id }, body: { code: '1' }, headers: { 'Idempotency-Key': 'k' } });
  // @ts-expect-error a number
  await api.call('readEvents', { params: { id }, query: { after: 'x' } });
  await session.call('getTurn', { params: { turn: 'turn_1' } });
  // @ts-expect-error no route of a session
  await session.call('listUsers');
  const info: { readonly agentKey: string } = await session.call('getSession');
  // @ts-expect-error the response is typed too
  const wrong: { readonly nothing: string } = info;
  void wrong;
}

it('is checked at compile time', () => expect(typed).toBeTypeOf('function'));
