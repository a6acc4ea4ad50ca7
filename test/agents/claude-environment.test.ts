/** The real Claude in a sandbox that no server has opened: prepared, prompted and read by way of the library alone. */

import { basename, dirname } from 'node:path';
import { expect, test } from 'vitest';
import {
  agentProgramFolders,
  ExecutionEnvironment,
  openAgentSandbox,
  type QueryEvent,
  SandboxEnvironment,
} from '../../src/index.ts';
import { Model } from '../support/agents/model.ts';
import { sharedProgram } from '../support/agents/shared-agents.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { bundledRunner } from '../support/servers/agent-server.ts';

const KEY = 'sk-ant-of-whoever-asks';

test('a turn writes with permission, reaches a model that its sandbox allows, and leaves a transcript', async () => {
  // An address that programs do not keep from their proxy.
  await using model = await Model.start({ host: '127.0.0.2' });
  const [dataDir, runner, program] = await Promise.all([scratchFolder(), bundledRunner(), sharedProgram('claude')]);
  const { node } = agentProgramFolders(dataDir);
  const folders = { node, runner, programs: dirname(dirname(program)) };
  const session = { dataDir, sandbox: { network: { allow: [new URL(model.url).host] } } };
  await using environment = await ExecutionEnvironment.create({
    sessionId: 'ses_0123456789abcdef',
    agent: 'claude',
    agentProfile: { systemPrompt: 'Answer as a lighthouse keeper.' },
    environmentOptions: {
      open: () => SandboxEnvironment.create({ open: () => openAgentSandbox({ session, folders }) }),
      runner: {
        argv: ['/cella/app/node/node', '/cella/app/runner/cella-runner.mjs'],
        programDir: `/cella/app/programs/claude/${basename(program)}`,
      },
    },
  });
  await environment.prepareSession();
  const asked: string[] = [];
  const events: QueryEvent[] = [];
  for await (const line of environment.executeQuery({
    turn: 'trn_0123456789abcdef',
    prompt: '#write /agent/workspace/letter.txt dear',
    mode: 'ask',
    timeoutMs: 60_000,
    access: { baseUrl: model.url, key: KEY },
    permit: async ({ tool }) => {
      asked.push(tool);
      return { allowed: true };
    },
  })) {
    events.push(line);
  }
  const ended = events.at(-1);
  expect(ended).toMatchObject({ type: 'ended', status: 'completed', usage: { output: expect.any(Number) } });
  expect(asked).toEqual(['Write']);
  const { WORKSPACE_DIR } = environment.getBasePaths();
  expect(await environment.environment.readFile(`${WORKSPACE_DIR}/letter.txt`)).toBe('dear\n');
  expect(new Set(model.seen.map(({ key }) => key))).toEqual(new Set([KEY]));
  expect(model.seen.some(({ text }) => text.includes('lighthouse keeper'))).toBe(true);
  const conversation = ended?.type === 'ended' ? (ended.conversation ?? '') : '';
  const transcript = await environment.readSessionTranscript(conversation);
  expect(transcript).toContain('#write /agent/workspace/letter.txt dear');
  expect(transcript).toContain('The tools said');
}, 120_000);
