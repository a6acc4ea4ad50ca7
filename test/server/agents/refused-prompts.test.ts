/** Prompts that could only fail are refused before a turn begins, with what is to be done about it. */

import { beforeAll, describe, expect, test } from 'vitest';
import { claudeProgram } from '../../../src/agents/claude/program.ts';
import { installProgram } from '../../../src/agents/install-program.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import {
  agentServer,
  hostileRunner,
  namedPrograms,
  npmStandIn,
  prompt,
  setKey,
} from '../../support/servers/agent-server.ts';
import type { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
beforeAll(async () => {
  const [runner, programs] = [await hostileRunner(), await namedPrograms()];
  server = await agentServer({ modelUrl: 'http://127.0.0.1:9', runner, programs });
});

const turnsOf = async (id: string, token?: string) =>
  (await server.call<{ turns: unknown[] }>(`GET /v1/sessions/${id}/turns`, { token })).json.turns;

describe('a prompt', () => {
  test('to an unknown agent is refused, and the next one goes to the previous agent', async () => {
    const { id } = await server.session({ agentKey: 'unknown' });
    const refused = await prompt(server, id, 'plain', { agent: 'gpt' });
    expect(refused).toMatchObject({ status: 404, json: { error: { code: 'AGENT_UNKNOWN' } } });
    expect(refused.text).toContain('claude');
    expect(await turnsOf(id)).toEqual([]);
    expect((await prompt(server, id, 'plain')).json).toMatchObject({ agent: 'claude', status: 'completed' });
  });

  test('of a user without a key is refused, and the error names the command that sets one', async () => {
    const bob = await server.user('bob', 'member');
    const { id } = await server.session({ agentKey: 'keyless' }, bob);
    const refused = await prompt(server, id, 'plain', { token: bob });
    expect(refused).toMatchObject({ status: 403, json: { error: { code: 'CREDENTIAL_MISSING' } } });
    expect(refused.text).toContain('cella credentials set anthropic');
    expect(await turnsOf(id, bob)).toEqual([]);
    await setKey(server, 'sk-ant-of-bob-0123456789', bob);
    expect((await prompt(server, id, 'plain', { token: bob })).json.status).toBe('completed');
  });

  test('to an agent that is not installed is refused with the command that installs it, until a version is', async () => {
    const programs = await scratchFolder();
    const bare = await agentServer({ modelUrl: 'http://127.0.0.1:9', runner: await hostileRunner(), programs });
    const { id } = await bare.session({ agentKey: 'bare' });
    const refused = await prompt(bare, id, 'plain');
    expect(refused).toMatchObject({ status: 409, json: { error: { code: 'AGENT_NOT_INSTALLED' } } });
    expect(refused.text).toContain('cella agents install claude');
    const agents = async () => (await bare.call(`GET /v1/sessions/${id}/agents`)).json;
    expect(await agents()).toEqual({ agents: [{ agent: 'claude', title: 'Claude', ready: false }] });
    const npm = await npmStandIn();
    const used = async (version: string) => {
      await installProgram(claudeProgram, { programs, npm, version });
      const { json } = await prompt(bare, id, 'program');
      expect(json).toMatchObject({ status: 'completed', text: expect.stringMatching(`/claude/${version}$`) });
    };
    await used('0.0.1');
    expect(await agents()).toMatchObject({ agents: [{ agent: 'claude', ready: true, version: '0.0.1' }] });
    await used(claudeProgram.version);
    await used('0.0.1');
  });
});
