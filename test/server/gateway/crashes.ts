/** Crashes of an agent and of its runner in mid-turn, each looked at for what it shows and leaves: the key is nowhere. */

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect } from 'vitest';
import type { Model } from '../../support/agents/model.ts';
import { canariesIn } from '../../support/processes/canary.ts';
import { dumpsIn, dumpsSince } from '../../support/processes/crash-dumps.ts';
import { type Process, processes } from '../../support/processes/processes.ts';
import { KEY, prompt } from '../../support/servers/agent-server.ts';
import type { TestServer } from '../../support/servers/server.ts';

export interface CrashParts {
  readonly server: TestServer;
  readonly model: Model;
  readonly session: string;
  /** Of the server: workspace, home and all that it keeps. */
  readonly dataDir: string;
  /** How the process of the agent's program can be known. */
  readonly program: string;
  /** More to be looked at while all of it runs. */
  readonly more?: () => Promise<void>;
}

export async function crashInMidTurn({ server, model, session, dataDir, program, more }: CrashParts): Promise<void> {
  const begun = Date.now();
  const hang = async () => {
    const hangs = model.hangs();
    const turn = prompt(server, session, '#hang');
    await hangs;
    const all = processes();
    const inside = all.filter(
      ({ pid, command }) => command.includes(program) && mountsOf(pid).includes(basename(dataDir)),
    );
    const agent = only(inside);
    const runner = only(all.filter(({ pid }) => pid === agent.parent));
    expect(runner.command).toContain('cella-runner.mjs');
    return { turn, agent: agent.pid, runner: runner.pid };
  };
  const first = await hang();
  // A dump would hold their memory.
  expect(canariesIn(KEY, { processes: [first.runner], memory: true })).toEqual([]);
  for (const pid of [first.agent, first.runner]) expect(dumpLimitOf(pid)).toBeLessThanOrEqual(1);
  await more?.();
  process.kill(first.agent, 'SIGSEGV');
  expect((await first.turn).json).toMatchObject({ status: 'failed', error: { code: 'AGENT_DIED' } });
  const scratch = [`/proc/${first.runner}/root/tmp`, `/proc/${first.runner}/root/dev/shm`];
  expect(dumpsIn(scratch)).toEqual([]);
  expect(canariesIn(KEY, { folders: scratch.slice(0, 1) })).toEqual([]);
  const second = await hang();
  process.kill(second.runner, 'SIGABRT');
  expect((await second.turn).json).toMatchObject({
    status: 'failed',
    // On a machine that is slow to end it, that it answers no more is known before its end is.
    error: { code: 'RUNNER_FAILED', message: expect.stringMatching(/SIGABRT|no longer answers/) },
  });
  expect([...dumpsIn([dataDir]), ...dumpsSince(begun)]).toEqual([]);
  expect(canariesIn(KEY, { folders: [dataDir] })).toEqual([]);
}

/** Whose a process is, they tell: in a sandbox as in a container. */
function mountsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, 'utf8');
  } catch {
    return ''; // it has ended
  }
}

function only(found: readonly Process[]): Process {
  const [one, ...others] = found;
  if (!one || others.length > 0) throw new Error(`not one, but: ${found.map(({ command }) => command).join('; ')}`);
  return one;
}

function dumpLimitOf(pid: number): number {
  const line = /^Max core file size +(\S+) +(\S+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'));
  return Math.max(Number(line?.[1]), Number(line?.[2]));
}
