/** What a runner that serves does with prompts. */

import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  GetApiKey,
  Hello,
  Ping,
  PROTOCOL_VERSION,
  ReadTranscript,
  SetupSession,
  Shutdown,
  StopTurn,
} from '../../../src/protocol/runner-methods.ts';
import { type RunnerFiles, RunnerTestServer, sessionId, sessionToken, turnId } from '../../support/agents/runner.ts';
import { codeOf } from '../../support/servers/rpc-pair.ts';

export type RunnerParts = () => RunnerFiles & { readonly folder: string };

export function runnerTurns(parts: RunnerParts): void {
  test('begin with hello: another version is a typed error, and nothing is accepted before', async () => {
    await using server = new RunnerTestServer(parts().real);
    server.peer.start();
    expect(await codeOf(server.prompt([]))).toBe('RUNNER_PROTOCOL');
    const strange = { protocol_version: PROTOCOL_VERSION + 1, something: 'new' };
    const error = await server.peer.call(Hello, Object(strange)).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: 'RUNNER_VERSION', details: { runner: PROTOCOL_VERSION } });
    expect(await codeOf(server.hello({ session_id: '../../etc' }))).toBe('INVALID_OPTIONS');
    const greeting = await server.hello();
    expect(greeting).toMatchObject({ protocol_version: PROTOCOL_VERSION, pid: server.child.pid });
    expect(greeting.agents).toContain('claude');
    expect(await codeOf(server.hello())).toBe('RUNNER_PROTOCOL');
  });

  test('report messages in order, then the completion, and reply with the same', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello({ agent: 'scripted' });
    const outcome = await server.prompt([{ say: 'first' }, { flood: 200 }, { say: 'last' }]);
    expect(outcome).toEqual({
      status: 'completed',
      message_count: 203,
      usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
      conversation: 'conversation-1',
    });
    expect(server.completions).toEqual([outcome]);
    expect(server.said).toHaveLength(202);
    expect([server.said[0], server.said.at(-1)]).toEqual(['first', 'last']);
    expect(server.phases).toEqual(['loading', 'opening', 'prompting', 'closing']);
    expect((await server.peer.call(Ping, {})).turn_id).toBeUndefined();
    await server.peer.call(Shutdown, {});
    expect(await server.exited).toEqual([0, null]);
  });

  test('leave a conversation that is read in parts of one state, without another process', async () => {
    const { scripted, folder } = parts();
    await using server = new RunnerTestServer(scripted);
    const place = { agent: 'scripted', cwd: folder, home_dir: folder, program_dir: folder };
    const read = (conversation: string, part: number) =>
      server.peer.call(ReadTranscript, { ...place, conversation, part });
    server.peer.start();
    expect(await codeOf(read('talk', 0))).toBe('RUNNER_PROTOCOL');
    await server.hello();
    expect(await read('talk', 0)).toEqual({ found: false, text: '', parts: 0 });
    const text = `${'\u{1f40d}'.repeat(400_000)}\n`;
    await writeFile(join(folder, 'talk'), text);
    const first = await read('talk', 0);
    await writeFile(join(folder, 'talk'), 'another\n');
    const rest = await Promise.all(Array.from({ length: first.parts - 1 }, (_, at) => read('talk', at + 1)));
    expect(first.parts).toBeGreaterThan(2);
    expect([first, ...rest].map((part) => part.text).join('') === text).toBe(true);
    expect(await read('talk', 0)).toEqual({ found: true, text: 'another\n', parts: 1 });
  });

  test('continue a conversation that arrives in parts, and refuse parts out of order', async () => {
    const { scripted, folder } = parts();
    await using server = new RunnerTestServer(scripted);
    const place = { agent: 'scripted', cwd: folder, home_dir: folder, program_dir: folder, profile: {} };
    const setup = (texts?: readonly string[], part = 0, conversation = 'told') => {
      const transcript = texts && { conversation, text: texts[part] ?? '', part, parts: texts.length };
      return server.peer.call(SetupSession, { ...place, ...(transcript && { transcript }) });
    };
    server.peer.start();
    expect(await codeOf(setup())).toBe('RUNNER_PROTOCOL');
    await server.hello();
    expect(await setup()).toEqual({ transcript: 'none' });
    const texts = ['one\n', 'two\n', 'three\n'];
    expect([await setup(texts, 0), await setup(texts, 1)]).toEqual([
      { transcript: 'partial' },
      { transcript: 'partial' },
    ]);
    expect(await setup(texts, 2)).toEqual({ transcript: 'written' });
    expect(await readFile(join(folder, 'told'), 'utf8')).toBe('one\ntwo\nthree\n');
    expect(await setup(['older\n'])).toEqual({ transcript: 'kept' });
    const wrong: (() => Promise<unknown>)[] = [
      () => setup(texts, 1),
      () => setup(texts, 0).then(() => setup(texts, 2)),
      () => setup(texts, 0).then(() => setup(texts, 1, 'another')),
      () => setup(texts, 3),
    ];
    for (const send of wrong) expect(await codeOf(send())).toBe('RUNNER_PROTOCOL');
    const piece = 'x'.repeat(4 * 1024 * 1024);
    const long = Array.from({ length: 20 }, () => piece);
    const sendAll = async () => {
      for (const part of long.keys()) await setup(long, part, 'long');
    };
    expect(await codeOf(sendAll())).toBe('TOO_LARGE');
    const turn = server.prompt([{ say: 'here' }, { wait: true }]);
    await server.saying(1);
    expect(await codeOf(setup())).toBe('AGENT_BUSY');
    await server.peer.call(StopTurn, { turn_id: turnId });
    expect((await turn).status).toBe('cancelled');
  });

  test('reach models through the gateway with the token as key, and the session’s MCP server', async () => {
    const path = join(parts().folder, 'gateway.sock');
    const gateway = createServer((request, response) => response.end(`${request.url} ${request.headers['x-api-key']}`));
    await new Promise<void>((resolve) => gateway.listen(path, resolve));
    try {
      const profile = { mcpServers: { other: { type: 'http', url: 'http://127.0.0.1:1/' } } } as const;
      await using server = new RunnerTestServer(parts().scripted, { session_mcp: 'cella', profile });
      await server.hello({ gateway_socket: path });
      const steps = [{ fetch: '/v1/messages' }, { show: 'profile' }, { show: 'env' }] as const;
      expect(await server.prompt(steps)).toMatchObject({ status: 'completed' });
      const [answer, shown = '', env = ''] = server.said;
      expect(answer).toBe(`/anthropic/v1/messages ${sessionToken}`);
      expect(JSON.parse(shown).mcpServers).toEqual({
        ...profile.mcpServers,
        cella: {
          type: 'http',
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/),
          headers: { Authorization: `Bearer ${sessionToken}` },
        },
      });
      expect(JSON.parse(env)).toEqual({ PATH: '/usr/bin:/bin', GIVEN: 'yes' });
    } finally {
      gateway.closeAllConnections();
      await new Promise((resolve) => gateway.close(resolve));
    }
  });

  test('ask for the key only in the mode just-in-time', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    const asked: unknown[] = [];
    server.peer.handle(GetApiKey, (params) => {
      asked.push(params);
      return { api_key: 'the-key', base_url: 'https://provider.example' };
    });
    await server.hello({ key_mode: 'just-in-time' });
    expect(await server.prompt([{ show: 'model' }])).toMatchObject({ status: 'completed' });
    expect(JSON.parse(server.said[0] ?? '')).toEqual({ baseUrl: 'https://provider.example', key: 'the-key' });
    expect(asked).toEqual([
      { session_token: sessionToken, session_id: sessionId, turn_id: turnId, provider: 'anthropic' },
    ]);
  });

  test('run one at a time, and only for the session of hello', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const first = server.prompt([{ say: 'here' }, { wait: true }]);
    await server.saying(1);
    expect(await codeOf(server.prompt([], { turn_id: 'trn_other00000000000' }))).toBe('AGENT_BUSY');
    expect(await codeOf(server.prompt([], { session_id: 'ses_other00000000000' }))).toBe('RUNNER_PROTOCOL');
    expect(await server.peer.call(StopTurn, { turn_id: 'trn_other00000000000' })).toEqual({ stopped: false });
    expect((await server.peer.call(Ping, {})).turn_id).toBe(turnId);
    expect(await server.peer.call(StopTurn, { turn_id: turnId })).toEqual({ stopped: true });
    expect(await first).toMatchObject({ status: 'cancelled', conversation: 'conversation-1' });
    expect(await server.prompt([{ say: 'again' }])).toMatchObject({ status: 'completed', message_count: 2 });
  });

  test('that fail say why, without the key', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    expect(await server.prompt([{ fail: 'the provider is out' }])).toMatchObject({
      status: 'failed',
      error: { code: 'PROVIDER_FAILED', message: 'the provider is out' },
    });
  });

  test('of an agent that crashes fail with its message, without the key', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const outcome = await server.prompt([{ die: 'out of memory' }]);
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'AGENT_FAILED' } });
    expect(outcome.error?.message).toContain('out of memory');
    expect(JSON.stringify(outcome)).not.toContain(sessionToken);
  });

  test('of an unknown agent fail with AGENT_UNKNOWN', async () => {
    await using server = new RunnerTestServer(parts().real);
    await server.hello({ agent: 'nobody' });
    const outcome = await server.prompt([], { agent: 'nobody' });
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'AGENT_UNKNOWN' } });
  });

  test('with an event that is too large continue, and report it', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const outcome = await server.prompt([{ huge: 9_000_000 }, { say: 'after' }]);
    expect(outcome).toMatchObject({ status: 'completed', message_count: 3 });
    expect(server.events[1]).toMatchObject({ type: 'agent_notice', text: expect.stringContaining('was dropped') });
    expect(server.said).toEqual(['after']);
  });

  test('take a prompt of 1 MB', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const long = '"\n$(reboot)é'.repeat(100_000);
    expect(await server.prompt([{ say: long }])).toMatchObject({ status: 'completed' });
    expect(server.said[0] === long).toBe(true);
  });
}
