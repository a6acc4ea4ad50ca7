/** `cella profiles` at a server, and a prompt that names one; and what commands advise where a server refuses them. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RunTurn } from '../../src/server/turns/session-turns.ts';
import { runCella, type Said } from '../support/cli/cli-here.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { TestServer } from '../support/servers/server.ts';

/** Says what it was set up with. */
const scripted: RunTurn = async ({ id: turn, profile, emit }) => {
  const text = profile.systemPrompt ?? 'nothing';
  await emit({ type: 'item_completed', turn, item: 'a', kind: 'message', status: 'completed', text });
  return { status: 'completed' };
};

let server: TestServer;
let folder: string;
beforeAll(async () => {
  server = await TestServer.start({ agents: { run: scripted } });
  folder = await scratchFolder();
});

const run = (...words: string[]): Promise<Said> => runCella(words, { CELLA_DATA_DIR: server.facts.dataDir });

function fileWith(text: string): string {
  const file = join(folder, 'profile.yaml');
  writeFileSync(file, text);
  return file;
}

describe('cella profiles', () => {
  it('sets the profile from its help, which a prompt uses and `show` prints', async () => {
    const { out: help } = await run('profiles', 'set', '--help');
    const shown = /every part is optional:\n((?: {2}.*\n)+)/.exec(help)?.[1] ?? '';
    const set = await run('profiles', 'set', 'reviewer', '--from', fileWith(shown.replaceAll(/^ {2}/gm, '')));
    const all = 'a system prompt, 1 rule, 1 skill, 1 subagent, 1 command, 2 MCP servers, 1 file';
    expect(set).toMatchObject({ code: 0, out: expect.stringContaining(`Set reviewer: ${all}.`), err: '' });
    expect((await run('profiles', 'list')).out).toMatch(
      new RegExp(`^NAME +UPDATED +CONTENT\nreviewer .* ago +${all}\n$`),
    );
    const prompted = await run('prompt', '--profile', 'reviewer', 'hello');
    expect(prompted).toMatchObject({ code: 0, out: 'You review changes, and change nothing yourself.\n' });
    const { out } = await run('profiles', 'show', 'reviewer');
    expect(await run('profiles', 'set', 'again', '--from', fileWith(out))).toMatchObject({ code: 0 });
    const profileOf = async (name: string) => JSON.parse((await run('profiles', 'show', name, '--json')).out).profile;
    expect(await profileOf('again')).toEqual(await profileOf('reviewer'));
  });

  it('replaces the whole profile, and deletes it', async () => {
    await run('profiles', 'set', 'short', '--from', fileWith('{"rules": {"one": "1", "two": "2"}}'));
    const set = await run('profiles', 'set', 'short', '--from', fileWith(''), '--json');
    expect(JSON.parse(set.out)).toMatchObject({ name: 'short', profile: {} });
    const { out } = await run('profiles', 'set', 'short', '--from', fileWith('# nothing\n'));
    expect(out).toContain('Set short. It is empty, so it changes nothing.');
    expect(await run('profiles', 'delete', 'short')).toMatchObject({ code: 0, out: 'Deleted short.\n' });
    const gone = { code: 1, err: expect.stringContaining('You have no profile short.') };
    expect(await run('profiles', 'show', 'short')).toMatchObject(gone);
    expect(await run('profiles', 'delete', 'short')).toMatchObject(gone);
    expect(await run('prompt', '--profile', 'short', 'hello')).toMatchObject(gone);
  });

  it('says what is wrong, and where, before it stores anything', async () => {
    const refused = async (text: string) => {
      const { code, err } = await run('profiles', 'set', 'wrong', '--from', fileWith(text));
      expect(code).toBe(2);
      return err;
    };
    expect(await refused('rules: [')).toContain('profile.yaml, line 1');
    expect(await refused('rule: {}')).toContain('profile.yaml: Invalid profile');
    expect(await refused('rules: { "a b": x }')).toContain('must be a name');
    expect(await refused('files: { ../x: y }')).toContain('must be a path in the workspace');
    expect(await refused('mcpServers: { a: { type: ftp } }')).toContain('mcpServers.a');
    const bomb = `a: &a [${'x,'.repeat(20)}]\nb: &b [${'*a,'.repeat(20)}]\nc: [${'*b,'.repeat(20)}]\n`;
    expect(await refused(bomb)).toContain('profile.yaml: ');
    expect(await run('profiles', 'set', 'wrong', '--from', join(folder, 'none'))).toMatchObject({
      code: 2,
      err: expect.stringContaining('does not exist'),
    });
    expect(await run('profiles', 'set', 'wrong')).toMatchObject({ code: 2, err: expect.stringContaining('--from') });
    expect(await run('profiles', 'set', '$(x)', '--from', fileWith('{}'))).toMatchObject({ code: 1 });
    expect((await run('profiles', 'list')).out).not.toContain('wrong');
  });
});

describe('an error of a server', () => {
  /** Makes the session `default`. */
  beforeAll(() => run('prompt', 'hello'));

  it.each([
    [['profiles', 'show', 'none'], '`cella profiles list`'],
    [['profiles', 'show', 'a b'], '--help'],
    [['prompt', '--profile', 'none', 'hello'], '`cella profiles list`'],
    [['credentials', 'delete', 'openai'], '`cella credentials list`'],
    [['permissions', 'allow', 'default', 'prm_0000000000000000'], '`cella permissions list`'],
    [['permissions', 'allow', 'default', 'x'], 'prm_ and 16 letters and digits'],
    [['permissions', 'rules', 'delete', 'rul_0000000000000000'], '`list`'],
    [['users', 'show', 'nobody'], '`cella users list`'],
  ])('for %j names what to type instead: %s', async (words, advice) => {
    const { code, err } = await run(...words);
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(advice) });
    expect(err).not.toMatch(/\/v1\/|\/docs|GET|\bPOST|\^prm_/);
  });
});
