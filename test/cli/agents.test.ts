/** `cella agents`: through the real program, with a stand-in for npm that brings empty files. */

import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Cella } from '../support/cli/command.ts';

let cella: Cella;
beforeEach(() => {
  cella = new Cella();
});
afterEach(() => cella[Symbol.dispose]());

const run = (words: string[], env = {}) => cella.run(['agents', ...words], { env });

/** A PATH with this npm, and what its shell needs. */
function pathWith(script: string): { PATH: string } {
  const folder = join(cella.temporary, 'npm');
  mkdirSync(folder);
  writeFileSync(join(folder, 'npm'), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, 'npm'), 0o755);
  return { PATH: `${folder}:/usr/bin:/bin` };
}

const BRING = `
for file in claude-agent-sdk/sdk.mjs claude-agent-sdk-linux-x64/claude; do
  mkdir -p "node_modules/@anthropic-ai/$(dirname $file)"
  : > "node_modules/@anthropic-ai/$file"
done`;

describe('cella agents', () => {
  it('shows its usage and errors', async () => {
    const { code, out } = await run(['--help']);
    expect(code).toBe(0);
    for (const word of ['install', 'list', 'uninstall', 'cella prompt']) expect(out).toContain(word);
    expect((await run(['install', '--help'])).out).toContain('--version');
  });

  it('installs the tested version, lists it, keeps it the second time, and removes it', async () => {
    const env = pathWith(BRING);
    expect(await run(['list'])).toMatchObject({
      out: expect.stringMatching(/^AGENT +TESTED +STATE\nclaude +0\.3\.325 +not installed\n$/),
      err: 'Install claude with `cella agents install claude`.\n',
    });
    const installed = await run(['install', 'claude'], env);
    expect(installed).toMatchObject({ code: 0 });
    const path = join(cella.dataDir, 'programs', 'claude', '0.3.325');
    expect(installed.out).toContain(path);
    expect((await run(['install', 'claude'], env)).out).toContain('already installed');
    const { agents } = JSON.parse((await run(['list', '--json'])).out);
    expect(agents).toMatchObject([
      { agent: 'claude', ready: true, used: '0.3.325', installed: [{ version: '0.3.325', path, missing: [] }] },
    ]);
    await run(['install', 'claude', '--version', '0.3.300'], env);
    const { out } = await run(['list']);
    expect(out).toMatch(/ 0\.3\.300 +used /);
    expect(out).toMatch(/ 0\.3\.325 +not used /);
    expect((await run(['uninstall', 'claude', '--version', '0.3.300'])).out).toContain('Uninstalled claude 0.3.300');
    expect((await run(['list'])).out).toMatch(/ 0\.3\.325 +used /);
    expect((await run(['uninstall', 'claude'])).out).toContain('Uninstalled claude 0.3.325');
    expect(JSON.parse((await run(['list', '--json'])).out).agents).toMatchObject([{ ready: false, installed: [] }]);
  });

  it('shows the progress of an install, and what an incomplete one lacks', async () => {
    const goOn = join(cella.temporary, 'go-on');
    const env = pathWith(
      `head -c 7000000 /dev/zero > ${goOn}.part; mv ${goOn}.part archive; until [ -e ${goOn} ]; do sleep 0.05; done; ${BRING}`,
    );
    const installing = cella.start(['agents', 'install', 'claude'], { env, input: '' });
    await expect.poll(() => installing.err, { timeout: 30_000 }).toContain('7 of about 410 MB');
    writeFileSync(goOn, '');
    expect(await installing.ended).toBe(0);
    const told = installing.err.split('\n').filter((line) => line.startsWith('Installing Claude 0.3.325 with npm: '));
    expect(told.map((line) => line.split(': ')[1])).toEqual(['asking the registry', '7 of about 410 MB']);
    const program = '@anthropic-ai/claude-agent-sdk-linux-x64/claude';
    rmSync(join(cella.dataDir, 'programs/claude/0.3.325/node_modules', program));
    expect(await run(['list'])).toMatchObject({
      out: expect.stringContaining(` incomplete: ${program} `),
      err: 'Install the missing parts of claude with `cella agents install claude`.\n',
    });
    expect(JSON.parse((await run(['list', '--json'])).out).agents).toMatchObject([
      { agent: 'claude', ready: false, installed: [{ version: '0.3.325', missing: [program] }] },
    ]);
    expect((await run(['install', 'claude'], env)).out).toContain('Installed claude 0.3.325');
    expect(await run(['list'])).toMatchObject({ out: expect.stringMatching(/ 0\.3\.325 +used /), err: '' });
  });

  it.each([
    [['install', 'nobody'], 'AGENT_UNKNOWN'],
    [['install', '../claude'], 'AGENT_UNKNOWN'],
    [['uninstall', 'claude'], 'AGENT_NOT_INSTALLED'],
    [['install', 'claude', '--version', '$(id)'], 'INVALID_OPTIONS'],
  ])('refuses %j as %s', async (words, expected) => {
    const { code, out } = await run([...words, '--json']);
    expect(code).toBe(expected === 'INVALID_OPTIONS' ? 2 : 1);
    expect(JSON.parse(out)).toMatchObject({ type: 'error', code: expected });
  });

  it('says what to do if npm or its registry is missing', async () => {
    const missing = await run(['install', 'claude'], { PATH: '/nowhere' });
    expect(missing).toMatchObject({ code: 1, err: expect.stringContaining('Install npm') });
    const unreachable = await run(['install', 'claude'], pathWith('echo npm error code ENOTFOUND >&2; exit 1'));
    expect(unreachable).toMatchObject({ code: 1, err: expect.stringContaining('npm ping') });
  });
});
