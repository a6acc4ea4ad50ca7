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
  StopTask,
} from '../../../src/protocol/runner-methods.ts';
import { type RunnerFiles, sessionId, sessionToken, TestDaemon, turnId } from '../../support/agents/runner.ts';
import { codeOf } from '../../support/servers/rpc-pair.ts';

export type RunnerParts = () => RunnerFiles & { readonly folder: string };

export function runnerTurns(parts: RunnerParts): void {
  test('begin with hello: another version is a typed error, and nothing is taken before it', async () => {
    await using daemon = new TestDaemon(parts().real);
    daemon.peer.start();
    expect(await codeOf(daemon.prompt([]))).toBe('RUNNER_PROTOCOL');
    const strange = { protocol_version: PROTOCOL_VERSION + 1, something: 'new' };
    const error = await daemon.peer.call(Hello, Object(strange)).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: 'RUNNER_VERSION', details: { runner: PROTOCOL_VERSION } });
    expect(await codeOf(daemon.hello({ session_id: '../../etc' }))).toBe('INVALID_OPTIONS');
    const greeting = await daemon.hello();
    expect(greeting).toMatchObject({ protocol_version: PROTOCOL_VERSION, pid: daemon.child.pid });
    expect(greeting.agents).toContain('claude');
    expect(await codeOf(daemon.hello())).toBe('RUNNER_PROTOCOL');
  });

  test('report their messages in order, then their completion, and answer with the same', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello({ agent: 'scripted' });
    const outcome = await daemon.prompt([{ say: 'first' }, { flood: 200 }, { say: 'last' }]);
    expect(outcome).toEqual({
      status: 'completed',
      message_count: 203,
      usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
      conversation: 'conversation-1',
    });
    expect(daemon.completions).toEqual([outcome]);
    expect(daemon.said).toHaveLength(202);
    expect([daemon.said[0], daemon.said.at(-1)]).toEqual(['first', 'last']);
    expect(daemon.phases).toEqual(['loading', 'opening', 'prompting', 'closing']);
    expect((await daemon.peer.call(Ping, {})).turn_id).toBeUndefined();
    await daemon.peer.call(Shutdown, {});
    expect(await daemon.exited).toEqual([0, null]);
  });

  test('leave a conversation that is read in parts of one moment, without another process', async () => {
    const { scripted, folder } = parts();
    await using daemon = new TestDaemon(scripted);
    const place = { agent: 'scripted', cwd: folder, home_dir: folder, program_dir: folder };
    const read = (conversation: string, part: number) =>
      daemon.peer.call(ReadTranscript, { ...place, conversation, part });
    daemon.peer.start();
    expect(await codeOf(read('talk', 0))).toBe('RUNNER_PROTOCOL');
    await daemon.hello();
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

  test('go on with a conversation that comes in parts before them, and refuse parts out of order', async () => {
    const { scripted, folder } = parts();
    await using daemon = new TestDaemon(scripted);
    const place = { agent: 'scripted', cwd: folder, home_dir: folder, program_dir: folder, profile: {} };
    const setup = (texts?: readonly string[], part = 0, conversation = 'told') => {
      const transcript = texts && { conversation, text: texts[part] ?? '', part, parts: texts.length };
      return daemon.peer.call(SetupSession, { ...place, ...(transcript && { transcript }) });
    };
    daemon.peer.start();
    expect(await codeOf(setup())).toBe('RUNNER_PROTOCOL');
    await daemon.hello();
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
    const turn = daemon.prompt([{ say: 'here' }, { wait: true }]);
    await daemon.saying(1);
    expect(await codeOf(setup())).toBe('AGENT_BUSY');
    await daemon.peer.call(StopTask, { turn_id: turnId });
    expect((await turn).status).toBe('cancelled');
  });

  test('reach models through the gateway with the token as their key, and the session’s own MCP server', async () => {
    const path = join(parts().folder, 'gateway.sock');
    const gateway = createServer((request, response) => response.end(`${request.url} ${request.headers['x-api-key']}`));
    await new Promise<void>((resolve) => gateway.listen(path, resolve));
    try {
      const profile = { mcpServers: { other: { type: 'http', url: 'http://127.0.0.1:1/' } } } as const;
      await using daemon = new TestDaemon(parts().scripted, { session_mcp: 'cella', profile });
      await daemon.hello({ gateway_socket: path });
      const steps = [{ fetch: '/v1/messages' }, { show: 'profile' }, { show: 'env' }] as const;
      expect(await daemon.prompt(steps)).toMatchObject({ status: 'completed' });
      const [answer, shown = '', env = ''] = daemon.said;
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

  test('ask for the key where keys are given just in time, and only there', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    const asked: unknown[] = [];
    daemon.peer.handle(GetApiKey, (params) => {
      asked.push(params);
      return { api_key: 'the-key', base_url: 'https://provider.example' };
    });
    await daemon.hello({ key_mode: 'just-in-time' });
    expect(await daemon.prompt([{ show: 'model' }])).toMatchObject({ status: 'completed' });
    expect(JSON.parse(daemon.said[0] ?? '')).toEqual({ baseUrl: 'https://provider.example', key: 'the-key' });
    expect(asked).toEqual([
      { session_token: sessionToken, session_id: sessionId, turn_id: turnId, provider: 'anthropic' },
    ]);
  });

  test('are one at a time, and for the session that was greeted alone', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const first = daemon.prompt([{ say: 'here' }, { wait: true }]);
    await daemon.saying(1);
    expect(await codeOf(daemon.prompt([], { turn_id: 'trn_other00000000000' }))).toBe('AGENT_BUSY');
    expect(await codeOf(daemon.prompt([], { session_id: 'ses_other00000000000' }))).toBe('RUNNER_PROTOCOL');
    expect(await daemon.peer.call(StopTask, { turn_id: 'trn_other00000000000' })).toEqual({ stopped: false });
    expect((await daemon.peer.call(Ping, {})).turn_id).toBe(turnId);
    expect(await daemon.peer.call(StopTask, { turn_id: turnId })).toEqual({ stopped: true });
    expect(await first).toMatchObject({ status: 'cancelled', conversation: 'conversation-1' });
    expect(await daemon.prompt([{ say: 'again' }])).toMatchObject({ status: 'completed', message_count: 2 });
  });

  test('that fail say why, and never with the key', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    expect(await daemon.prompt([{ fail: 'the provider is out' }])).toMatchObject({
      status: 'failed',
      error: { code: 'PROVIDER_FAILED', message: 'the provider is out' },
    });
  });

  test('of an agent that breaks are failed, with its words but not the key', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const outcome = await daemon.prompt([{ die: 'out of memory' }]);
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'AGENT_FAILED' } });
    expect(outcome.error?.message).toContain('out of memory');
    expect(JSON.stringify(outcome)).not.toContain(sessionToken);
  });

  test('of an agent that nobody knows are failed with AGENT_UNKNOWN', async () => {
    await using daemon = new TestDaemon(parts().real);
    await daemon.hello({ agent: 'nobody' });
    const outcome = await daemon.prompt([], { agent: 'nobody' });
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'AGENT_UNKNOWN' } });
  });

  test('with an event too large for a message go on, and tell of it', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const outcome = await daemon.prompt([{ huge: 9_000_000 }, { say: 'after' }]);
    expect(outcome).toMatchObject({ status: 'completed', message_count: 3 });
    expect(daemon.events[1]).toMatchObject({ type: 'agent_notice', text: expect.stringContaining('left out') });
    expect(daemon.said).toEqual(['after']);
  });

  test('take a prompt of 1 MB', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const long = '"\n$(reboot)é'.repeat(100_000);
    expect(await daemon.prompt([{ say: long }])).toMatchObject({ status: 'completed' });
    expect(daemon.said[0] === long).toBe(true);
  });
}
