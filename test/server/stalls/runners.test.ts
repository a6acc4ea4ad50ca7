/** Nothing that a runner sends, or that is kept of what it has sent, stops the event loop for long. */

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { hostileRunner, KEY, namedPrograms } from '../../support/servers/agent-server.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';
import { Server } from './rows.ts';

let server: Server;

beforeAll(async () => {
  const [dataDir, runner, agents] = await Promise.all([scratchFolder(), hostileRunner(), namedPrograms()]);
  const gateway = { providers: ['anthropic=http://127.0.0.1:9'] };
  server = await Server.start(dataDir, [], { gateway, agents: { programs: { runner, agents } } });
  const status = await server.discard('PUT', '/v1/credentials/anthropic', server.token, { value: KEY });
  expect(status).toBeLessThan(300);
}, 120_000);
afterAll(() => server?.end());

const row = (name: string, work: () => Promise<unknown>) =>
  it(name, { timeout: 180_000 }, async () => {
    const stall = await expectNoStall(work, serverLoop(server.url, server.pid));
    console.log(`${name}: longest stall ${stall.toFixed(1)} ms`);
  });
const session = async () =>
  (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: randomUUID() })).id;
const prompt = (id: string, text: string) =>
  server.json<{ status: string; error?: { message: string } }>(`POST /v1/sessions/${id}/prompt`, server.token, {
    prompt: text,
  });
/** Answers with a conversation of so many parts when it is asked for it. */
const talk = async (id: string, text: string, times: number, parts: number) =>
  expect(await prompt(id, `tell ${JSON.stringify({ text, times, parts })}`)).toMatchObject({ status: 'completed' });

const PIECE = 256 * 1024;

describe('a transcript of some 60 million characters', () => {
  for (const [kind, text] of [
    ['plain text', 'x'],
    // Both saves fit into what a runner may send in ten seconds.
    ['characters of two bytes', '\u03a9'],
  ] as const) {
    describe(kind, () => {
      let last: string;
      row('is taken from a runner and saved', async () => {
        last = await session();
        await talk(last, text, PIECE, 229);
      });
      row('is saved once more, a little longer', () => talk(last, `${text}${text}`, PIECE / 2 + 1, 229));
      row('is read over HTTP', async () =>
        expect(await server.discard('GET', `/v1/sessions/${last}/transcript`, server.token)).toBe(200),
      );
      it('is returned completely', { timeout: 60_000 }, async () => {
        const path = `GET /v1/sessions/${last}/transcript`;
        const told = await server.json<{ text: string; revision: number }>(path, server.token);
        expect(told.text === text.repeat((PIECE + 2) * 229)).toBe(true);
      });
      row('is given to a new runner', async () => {
        expect(await prompt(last, 'exit')).toMatchObject({ status: 'failed' });
        expect(await prompt(last, 'left')).toMatchObject({ status: 'completed' });
      });
    });
  }
  row('is taken in parts as long as a message may be', async () => talk(await session(), 'x', 8_000_000, 8));
  row('is refused above the limit', async () => talk(await session(), 'x', 8_000_000, 9));
  row('goes with its session', async () => {
    const id = await session();
    await talk(id, '\u03a9', PIECE, 229);
    expect(await server.discard('DELETE', `/v1/sessions/${id}`, server.token)).toBe(204);
  });
});

describe('a message of a runner', () => {
  const started = { type: 'item_started', item: 'i', kind: 'tool', tool: 'T' };
  const options = { text: 'x', options: '@' };
  for (const [what, message, all] of [
    [
      'the input of a tool',
      { event: { ...started, input: '@' } },
      ['characters', 'escapes', 'surrogates', 'digits', 'numbers', 'texts', 'fewer', 'keys', 'some keys', 'objects'],
    ],
    [
      'the output of a tool',
      { event: { ...started, type: 'item_completed', status: 'completed', output: '@' } },
      ['escapes', 'surrogates'],
    ],
    ['a piece of a message', { event: { type: 'item_delta', item: 'i', text: '@' } }, ['escapes', 'surrogates']],
    [
      'its own event',
      { event: { type: 'agent_raw', agent: 'claude', native: '@' } },
      ['escapes', 'surrogates', 'fewer', 'some keys'],
    ],
    [
      'a list of tools',
      { event: { type: 'agent_session', agent: 'claude', conversation: 'c', tools: '@' } },
      ['numbers', 'fewer'],
    ],
    ['a plan', { event: { type: 'plan', entries: '@' } }, ['numbers', 'no objects', 'entries']],
    ['a notice', { event: { type: 'agent_notice', text: '@' } }, ['escapes', 'surrogates']],
    ['no message', { event: '@' }, ['keys', 'numbers', 'characters']],
    [
      'a request for leave',
      { method: 'request_permission', tool: 'T', summary: 's', input: '@' },
      ['characters', 'surrogates', 'fewer', 'some keys', 'numbers'],
    ],
    [
      'a question',
      { method: 'request_permission', tool: 'T', summary: 's', question: options },
      ['objects', 'no objects', 'numbers'],
    ],
    ['names that nobody knows', { method: 'report_completion', status: '@' }, ['keys', 'numbers']],
  ] as const) {
    for (const shape of all) {
      row(`${what}: ${shape}`, async () => {
        await prompt(await session(), `huge ${JSON.stringify({ ...message, shape })}`);
      });
    }
  }
});
