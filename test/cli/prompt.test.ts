/** `cella prompt`, `cella permissions` and the agent of a chat, as a person types them, at a server whose turns are scripted. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PermissionInfo } from '../../src/protocol/permission.ts';
import type { RunTurn } from '../../src/server/turns/session-turns.ts';
import { Cella, type StartOptions } from '../support/cli/command.ts';
import { TestServer } from '../support/servers/server.ts';

/** Says something, wants to run the command that the prompt names, and tells what came of it. */
const scripted: RunTurn = async ({ prompt, id: turn, mode, profile, emit, permit, signal }) => {
  const say = async (item: string, text: string) => {
    await emit({ type: 'item_started', turn, item, kind: 'message' });
    await emit({ type: 'item_delta', turn, item, text });
    await emit({ type: 'item_completed', turn, item, kind: 'message', status: 'completed', text });
  };
  const told = profile.systemPrompt === undefined ? mode : `${mode}, ${profile.systemPrompt}`;
  await say('first', `You said ${prompt} (${told}).`);
  const [, command] = /^run (.*)$/.exec(prompt) ?? [];
  if (command !== undefined) {
    const input = { command };
    await emit({ type: 'item_started', turn, item: 'tool', kind: 'tool', tool: 'Bash', input });
    const { outcome, reason } = await permit({ item: 'tool', tool: 'Bash', summary: command, input });
    if (signal.aborted) return { status: 'cancelled' };
    await say('second', `It was ${outcome}${reason === undefined ? '' : `: ${reason}`}.`);
  }
  return { status: 'completed', usage: { input: 10, output: 2, cacheRead: 0, cacheWrite: 0, costUsd: 0.5 } };
};

let server: TestServer;
let cella: Cella;
beforeAll(async () => {
  server = await TestServer.start({ agents: { run: scripted } });
  cella = new Cella();
});
afterAll(() => cella[Symbol.dispose]());

const start = (words: readonly string[], options: StartOptions = {}) =>
  cella.start(words, { ...options, env: { CELLA_URL: server.url, CELLA_TOKEN: server.token } });

async function run(...words: string[]) {
  const started = start(words, { input: '' });
  const code = await started.ended;
  return { code, out: started.out, err: started.err };
}

/** Those of a session by its agent key. */
async function permissionsOf(agentKey: string): Promise<PermissionInfo[]> {
  const { json } = await server.call<{ sessions: { id: string }[] }>(`GET /v1/sessions?agentKey=${agentKey}`);
  const { id = '' } = json.sessions[0] ?? {};
  const path = `GET /v1/sessions/${id}/permissions`;
  return (await server.call<{ permissions: PermissionInfo[] }>(path)).json.permissions;
}

describe('cella prompt', () => {
  it('asks at the terminal, and passes the reason of a denial to the agent', async () => {
    const started = start(['prompt', 'run git push', '--key', 'asked', '--mode', 'auto-edit'], { terminal: true });
    await started.says('(n) no: ');
    started.type('n\r');
    await started.says('Why not?');
    started.type('not on a Friday\r');
    await started.says('It was denied: not on a Friday.');
    expect(await started.ended).toBe(0);
    expect(started.out).toContain('You said run git push (auto-edit).');
    expect(started.out).toContain('* Bash git push');
    expect(started.out).toContain('10 tokens in, 2 out, $0.5000');
    expect(await permissionsOf('asked')).toMatchObject([{ resolution: { outcome: 'denied', by: 'local' } }]);
  });

  it('stops with Ctrl-C while a permission is pending: stop was refused then', async () => {
    const started = start(['prompt', 'run make', '--key', 'stopped'], { terminal: true });
    await started.says('(n) no: ');
    started.type('\u0003');
    expect(await started.ended).toBe(130);
    expect(await permissionsOf('stopped')).toMatchObject([{ resolution: { outcome: 'cancelled' } }]);
  });

  it('waits for another person if nobody can be asked here, and prints only the agent’s text to stdout', async () => {
    const started = start(['prompt', 'run make test', '--key', 'piped'], { input: '' });
    await started.says('You said run make test (ask).');
    const waiting = async (): Promise<PermissionInfo> => {
      const [found] = (await run('permissions', 'list', '--session', 'piped', '--json')).out
        .split('\n')
        .flatMap((line) => (line === '' ? [] : JSON.parse(line).permissions));
      return found ?? (await waiting());
    };
    const { id } = await waiting();
    const listed = new RegExp(`^ID +KEY .*\n${id} +piped +Bash +make test +pending .* ses_\\w+\n$`);
    expect((await run('permissions', 'list')).out).toMatch(listed);
    const allowed = await run('permissions', 'allow', 'piped', id, '--scope', 'session', '--pattern', 'make *');
    expect(allowed).toMatchObject({ code: 0, out: 'Allowed: Bash make test\n' });
    expect(await started.ended).toBe(0);
    expect(started.out).toBe('You said run make test (ask).\nIt was allowed.\n');
    expect(started.err).toContain(`cella permissions allow`);
    const late = await run('permissions', 'deny', 'piped', id);
    expect(late).toMatchObject({ code: 1, err: expect.stringContaining('already resolved by local: allowed') });
    // The rule decides from here on.
    const again = await run('prompt', 'run make clean', '--key', 'piped');
    expect(again).toMatchObject({ code: 0, err: expect.stringMatching(/allowed by the rule rul_\w{16}/) });
    const rules = await run('permissions', 'rules', 'list', '--session', 'piped');
    expect(rules.out).toMatch(/rul_\w{16} +Bash +make \*/);
  });

  it('manages rules, and refuses unreadable ones', async () => {
    const added = await run('permissions', 'rules', 'create', 'Bash', 'ls *', '--json');
    const { id } = JSON.parse(added.out);
    expect((await run('prompt', 'run ls -l', '--key', 'ruled')).out).toContain('It was allowed.');
    expect(await run('permissions', 'rules', 'delete', id)).toMatchObject({ code: 0, out: `Deleted ${id}.\n` });
    expect(await run('permissions', 'rules', 'create', 'Bash', 'a\nb')).toMatchObject({ code: 1 });
  });

  it('prints events as JSON for programs, and reports mistakes in a command line', async () => {
    const { code, out } = await run('prompt', 'hello', '--key', 'json', '--json');
    const types = out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).type]));
    expect([code, types]).toEqual([0, ['turn_started', 'item_started', 'item_delta', 'item_completed', 'turn_ended']]);
    expect(await run('prompt', 'hello', '--mode', 'yolo')).toMatchObject({ code: 2 });
    expect(await run('prompt', 'hello', '--with', 'Bad Name')).toMatchObject({ code: 2 });
    expect(await run('prompt', ' ')).toMatchObject({ code: 2, err: expect.stringContaining('The prompt is empty') });
  });
});

describe('a chat', () => {
  it('sends plain lines to the agent that /agent has chosen, and to none before', async () => {
    const input = 'hello\n/agent claude plan\nhello again\n/agent off\n';
    const started = start(['chat', '--key', 'chatting'], { input });
    expect(await started.ended).toBe(0);
    expect(started.err).toContain('No coding agent is chosen.');
    expect(started.err).toContain('Plain lines go to claude in the mode plan.');
    expect(started.out).toBe('You said hello again (plan).\n');
  });

  it('refuses an unknown agent at once, and lists the known ones', async () => {
    const input = '/agent claude\n/agent gpt\nhello\n';
    const started = start(['chat', '--key', 'choosing'], { input });
    expect(await started.ended).toBe(0);
    expect(started.err).toContain('There is no coding agent "gpt".');
    expect(started.err).toContain('Use one of these: claude.');
    // The one before stays.
    expect(started.out).toBe('You said hello (ask).\n');
    const refused = await run('chat', '--key', 'choosing', '--with', 'gpt');
    expect(refused).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('There is no coding agent "gpt".'),
    });
  });

  it('prompts with the profile that it was started with', async () => {
    await server.call('PUT /v1/profiles/brief', { body: { systemPrompt: 'be brief' } });
    const words = ['chat', '--key', 'chatting', '--with', 'claude', '--profile', 'brief'];
    const started = start(words, { input: 'hello\n' });
    expect(await started.ended).toBe(0);
    expect(started.out).toBe('You said hello (ask, be brief).\n');
  });
});
