import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { AgentSetup, Turn } from '../contract.ts';
import type { Query, Sdk } from './sdk.ts';
import { runTurn } from './turn.ts';

/** A program that says nothing, and ends when it is told to. */
function silentProgram(): Sdk {
  const over = Promise.withResolvers<void>();
  const query: Query = {
    interrupt: async () => over.resolve(),
    close: () => over.resolve(),
    [Symbol.asyncIterator]: () => ({ next: () => over.promise.then(() => ({ done: true, value: undefined })) }),
  };
  return { query: () => query };
}

test('a turn that is stopped while its program is made ready is over', { timeout: 2000 }, async () => {
  const homeDir = mkdtempSync(join(tmpdir(), 'cella-test-'));
  onTestFinished(() => rmSync(homeDir, { recursive: true, force: true }));
  const stop = new AbortController();
  const model = { baseUrl: 'http://127.0.0.1:9', key: 'no-key' };
  const setup: AgentSetup = { cwd: homeDir, homeDir, programDir: homeDir, env: {}, model, profile: {} };
  const turn: Turn = {
    id: 'trn_0000000000000001',
    prompt: 'hello',
    mode: 'ask',
    signal: stop.signal,
    emit: async () => {},
    permit: async () => ({ allowed: false, reason: 'nobody is asked' }),
  };
  const running = runTurn(silentProgram(), setup, turn);
  stop.abort();
  await expect(running).resolves.toMatchObject({ status: 'cancelled' });
});
