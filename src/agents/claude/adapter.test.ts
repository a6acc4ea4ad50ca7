import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import type { AgentSetup, AgentTurn } from '../agent-adapter.ts';
import { runClaudeTurn } from './adapter.ts';
import type { Sdk, SdkQuery } from './sdk-options.ts';

/** A program that says nothing, and ends when it is told to. */
function silentProgram(): Sdk {
  const over = Promise.withResolvers<void>();
  const query: SdkQuery = {
    setMcpServers: async () => {},
    interrupt: async () => over.resolve(),
    close: () => over.resolve(),
    [Symbol.asyncIterator]: () => ({ next: () => over.promise.then(() => ({ done: true, value: undefined })) }),
  };
  return { query: () => query };
}

/** One that has begun to answer, and is ended before it says so. */
function cutProgram(): Sdk {
  const streamed = (event: object) => ({ type: 'stream_event', event, parent_tool_use_id: null, session_id: 's' });
  const delta = (text: string) =>
    streamed({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  const said = [streamed({ type: 'message_start', message: { id: 'msg_1' } }), delta('word '), delta('word')];
  const query: SdkQuery = {
    setMcpServers: async () => {},
    interrupt: async () => {},
    close: () => {},
    async *[Symbol.asyncIterator]() {
      yield* said;
    },
  };
  return { query: () => query };
}

function turnOf(events: AgentEvent[] = []): { setup: AgentSetup; turn: AgentTurn; stop: AbortController } {
  const homeDir = mkdtempSync(join(tmpdir(), 'cella-test-'));
  onTestFinished(() => rmSync(homeDir, { recursive: true, force: true }));
  const stop = new AbortController();
  const model = { baseUrl: 'http://127.0.0.1:9', key: 'no-key' };
  const setup: AgentSetup = { cwd: homeDir, homeDir, programDir: homeDir, env: {}, model, profile: {} };
  const turn: AgentTurn = {
    id: 'trn_0000000000000001',
    prompt: 'hello',
    mode: 'ask',
    signal: stop.signal,
    emit: async (event) => void events.push(event),
    permit: async () => ({ allowed: false, reason: 'nobody is asked' }),
  };
  return { setup, turn, stop };
}

test('a turn that is stopped while its program starts ends at once', { timeout: 2000 }, async () => {
  const { setup, turn, stop } = turnOf();
  const running = runClaudeTurn(silentProgram(), setup, turn);
  stop.abort();
  await expect(running).resolves.toMatchObject({ status: 'failed' });
});

test('text of a program that ends in the middle of it is kept, as cancelled', async () => {
  const events: AgentEvent[] = [];
  const { setup, turn } = turnOf(events);
  await expect(runClaudeTurn(cutProgram(), setup, turn)).resolves.toMatchObject({ error: { code: 'AGENT_DIED' } });
  expect(events.filter(({ type }) => type === 'item_completed')).toMatchObject([
    { item: 'msg_1:0', kind: 'message', status: 'cancelled', text: 'word word' },
  ]);
});
