/** How a runner that serves asks for permissions, and what it does with the answers. */

import { expect, test } from 'vitest';
import { CellaError } from '../../../src/protocol/errors.ts';
import { PermissionResolved, RequestPermission, StopTurn } from '../../../src/protocol/runner-methods.ts';
import { RunnerTestServer, sessionToken, turnId } from '../../support/agents/runner.ts';
import type { RunnerParts } from './turns.ts';

const idOf = (n: number) => `prm_${String(n).padStart(16, '0')}`;

export function runnerPermissions(parts: RunnerParts): void {
  test('can be decided in the reply, later, or before the reply arrives', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    let asked = 0;
    const decide = (n: number) => ({ turn_id: turnId, request_id: idOf(n), outcome: 'allowed' as const, text: `${n}` });
    server.peer.handle(RequestPermission, async ({ tool, session_token }) => {
      expect(session_token).toBe(sessionToken);
      asked += 1;
      const request_id = idOf(asked);
      if (tool === 'at once') return { request_id, decision: { outcome: 'denied' as const, reason: 'by a rule' } };
      const telling = server.peer.call(PermissionResolved, decide(asked));
      if (tool === 'too early') expect(await telling).toEqual({ accepted: true });
      return { request_id };
    });
    await server.hello();
    const outcome = await server.prompt([{ ask: 'at once' }, { ask: 'later' }, { ask: 'too early' }]);
    expect(outcome.status).toBe('completed');
    expect(server.said.map((text) => JSON.parse(text))).toEqual([
      { allowed: false, reason: 'by a rule' },
      { allowed: true, text: '2' },
      { allowed: true, text: '3' },
    ]);
    expect(await server.peer.call(PermissionResolved, decide(9))).toEqual({ accepted: false });
  });

  test('that are pending do not prevent a turn from stopping', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    const asked = Promise.withResolvers<void>();
    server.peer.handle(RequestPermission, () => {
      asked.resolve();
      return { request_id: idOf(1) };
    });
    await server.hello();
    const turn = server.prompt([{ ask: 'Bash' }, { say: 'never' }]);
    await asked.promise;
    expect(await server.peer.call(StopTurn, { turn_id: turnId })).toEqual({ stopped: true });
    expect((await turn).status).toBe('cancelled');
    expect(server.said).toHaveLength(1);
  });

  test('whose request has no reply yet do not either, and the server is notified', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    const asked = Promise.withResolvers<AbortSignal>();
    server.peer.handle(RequestPermission, (_, { signal }) => {
      asked.resolve(signal);
      return new Promise(() => {});
    });
    await server.hello();
    const turn = server.prompt([{ ask: 'Bash' }]);
    const signal = await asked.promise;
    const withdrawn = new Promise((resolve) => signal.addEventListener('abort', resolve));
    await server.peer.call(StopTurn, { turn_id: turnId });
    expect((await turn).status).toBe('cancelled');
    await withdrawn;
  });

  test('that cannot be requested are denied', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    server.peer.handle(RequestPermission, () => {
      throw new CellaError('STORAGE_FAILED', 'the disk is full');
    });
    await server.hello();
    expect((await server.prompt([{ ask: 'Bash' }])).status).toBe('completed');
    expect(JSON.parse(server.said[0] ?? '')).toMatchObject({ allowed: false, reason: expect.stringContaining('disk') });
  });
}
