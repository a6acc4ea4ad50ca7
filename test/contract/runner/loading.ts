/** What a runner loads: the agent that it was asked for, when it was asked, and nothing of any other. */

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { RunnerTestServer, runCommand, turnId } from '../../support/agents/runner.ts';
import type { RunnerParts } from './turns.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** The runner from its source, where each module is a file: those of agents that it loads, and the last line that it writes. */
async function loadedBy(command: string, input: object): Promise<{ agents: string[]; last: string }> {
  const words = [
    '--import',
    join(root, 'test/support/agents/report-loads.mjs'),
    join(root, 'src/runner/cella-runner.ts'),
  ];
  const child = spawn(process.execPath, [...words, command], { env: { PATH: '/usr/bin:/bin' } });
  child.stdin.end(`${JSON.stringify(input)}\n`);
  const [out, told] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  const files = told.split('\n').flatMap((line) => /^loads file:\/\/(.*)$/.exec(line)?.[1] ?? []);
  expect(files).toContain(join(root, 'src/runner/own-process.ts'));
  const agents = files.filter((file) => file.endsWith('/adapter.ts') || file.endsWith('/sdk.mjs'));
  return { agents: agents.map((file) => file.replace(root, '')), last: out.trim().split('\n').at(-1) ?? '' };
}

export function runnerLoading(parts: RunnerParts): void {
  test('loads only the adapter of the requested agent, and its SDK with the first turn', async () => {
    const [cwd, programDir] = await Promise.all(
      ['cwd-', 'program-'].map((name) => mkdtemp(join(parts().folder, name))),
    );
    if (cwd === undefined || programDir === undefined) throw new Error('two were made');
    const library = join(programDir, 'node_modules/@anthropic-ai/claude-agent-sdk');
    await mkdir(library, { recursive: true });
    await writeFile(join(library, 'sdk.mjs'), 'export function query() { throw new Error("a stand-in"); }');
    const place = { cwd, homeDir: cwd, programDir };
    const adapter = 'src/agents/claude/adapter.ts';
    const unknown = await loadedBy('read-transcript', { ...place, agent: 'nobody', conversation: 'c1' });
    expect(unknown).toMatchObject({ agents: [], last: expect.stringContaining('AGENT_UNKNOWN') });
    const read = await loadedBy('read-transcript', { ...place, agent: 'claude', conversation: randomUUID() });
    expect(read).toMatchObject({ agents: [adapter], last: expect.stringContaining('"found":false') });
    const access = { baseUrl: 'http://127.0.0.1:9', key: 'the-key' };
    const turn = { turn: turnId, prompt: 'hi', mode: 'ask', timeoutMs: 60_000, access };
    const asked = await loadedBy('execute-query', { ...place, agent: 'claude', ...turn });
    expect(asked).toMatchObject({
      agents: [adapter, join(library, 'sdk.mjs')],
      last: expect.stringContaining('ended'),
    });
  });

  test('loads no other agent, although all are in one file: by a command, and by hello', async () => {
    const loaded = 'the telling agent is loaded';
    const look = async (agent: string) => {
      const place = { agent, cwd: '/tmp', homeDir: parts().folder, programDir: '/tmp', conversation: 'none' };
      return (await runCommand(parts().scripted, 'read-transcript', `${JSON.stringify(place)}\n`)).stderr;
    };
    expect(await look('scripted')).not.toContain(loaded);
    expect(await look('telling')).toContain(loaded);
    for (const agent of ['scripted', 'telling']) {
      await using server = new RunnerTestServer(parts().scripted);
      expect(await server.hello({ agent: agent })).toMatchObject({ agents: ['scripted', 'telling'] });
      server.peer.close();
      server.child.stdin.end();
      await server.exited;
      expect(server.stderr.includes(loaded)).toBe(agent === 'telling');
    }
  });
}
