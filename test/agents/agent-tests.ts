/** What an agent does alike wherever it runs: what it asks for, and what it makes of providers that fail. */

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { PermissionRequest } from '../../src/protocol/permission.ts';
import { KEY } from '../support/servers/agent-server.ts';
import { endOf, type Suite, textsOf } from './suite.ts';

export function agentTests(suite: () => Suite): void {
  test('an approved tool runs, and the file that it wrote is reported', async () => {
    const asks: PermissionRequest[] = [];
    const outcome = await suite().place.prompt(`#write ${suite().inside('out.txt')} good day`, {
      permit: async (ask) => {
        expect(existsSync(suite().outside('out.txt'))).toBe(false);
        asks.push(ask);
        return { allowed: true };
      },
    });
    expect(outcome.status).toBe('completed');
    expect(await readFile(suite().outside('out.txt'), 'utf8')).toBe('good day\n');
    expect(asks).toMatchObject([{ summary: expect.stringContaining('out.txt'), pattern: 'out.txt' }]);
    const item = asks[0]?.item ?? '';
    const { turn } = outcome;
    expect(outcome.events).toContainEqual({ type: 'file_changed', turn, item, path: 'out.txt', change: 'created' });
    expect(endOf(outcome, item)).toMatchObject({ kind: 'tool', status: 'completed' });
  });

  test('in auto-edit, writes files of the workspace without asking, and asks for everything else', async () => {
    const outcome = await suite().place.prompt(`#write ${suite().inside('auto.txt')}`, { mode: 'auto-edit' });
    expect(outcome.status).toBe('completed');
    expect(await suite().files()).toEqual(['auto.txt']);
    const asks: PermissionRequest[] = [];
    await suite().place.prompt('#run node -e "1"', {
      mode: 'auto-edit',
      permit: async (ask) => {
        asks.push(ask);
        return { allowed: false };
      },
    });
    expect(asks.map(({ summary }) => summary)).toEqual(['node -e "1"']);
  });

  test('a question gets the person’s answer', async () => {
    const asks: PermissionRequest[] = [];
    const outcome = await suite().place.prompt('#ask', {
      permit: async (ask) => {
        asks.push(ask);
        return { allowed: true, text: 'green, please' };
      },
    });
    expect(asks).toMatchObject([
      { question: { text: 'Which colour?', options: [{ label: 'red' }, { label: 'blue' }] } },
    ]);
    expect(textsOf(outcome).at(-1)).toContain('green, please');
  });

  test.each([
    [401, 'PROVIDER_REFUSED'],
    [429, 'PROVIDER_LIMITED'],
    [500, 'PROVIDER_FAILED'],
  ])('a provider that responds with %i fails the turn as %s', async (status, code) => {
    const outcome = await suite().place.prompt(`#err${status}`);
    expect(outcome).toMatchObject({
      status: 'failed',
      error: { code, message: expect.stringContaining(`${status}`) },
    });
    expect(outcome.events).toContainEqual({ type: 'agent_error', turn: outcome.turn, error: outcome.error });
    expect(outcome.error?.message).not.toContain(KEY);
  });

  test('a provider that streams garbage fails the turn', async () => {
    const outcome = await suite().place.prompt('#garbage');
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'PROVIDER_FAILED' } });
  });

  // The last: whoever goes on with its conversation sends all of it again.
  test('takes a prompt of 1 MB', async () => {
    const outcome = await suite().place.prompt(`${'long words '.repeat(95_400)}the very end\n#plain`);
    expect(outcome.status).toBe('completed');
    const asked = suite().model.seen.find(({ text }) => text.includes('the very end'));
    expect(asked?.text.length).toBeGreaterThan(1_000_000);
  });
}
