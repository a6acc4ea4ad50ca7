import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { installProgram, removeProgram } from './install-program.ts';
import { type AgentProgram, activeProgram, findActiveVersion, installedVersions } from './installed-programs.ts';

const program: AgentProgram = {
  agent: 'probe',
  title: 'Probe',
  packageName: '@cella/probe',
  version: '1.2.3',
  megabytes: 1,
  parts: [['probe/main.js'], ['probe-x64/run', 'probe-arm64/run']],
};

let dataDir: string;
let programs: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'cella-install-'));
  programs = join(dataDir, 'programs');
});
afterEach(() => rmSync(dataDir, { recursive: true }));

/** In place of npm: a program that does what the test says, in the folder that it is started in. */
function npmThat(script: string): string {
  const path = join(dataDir, 'npm-stand-in');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

const WHOLE =
  'umask 077; mkdir -p node_modules/probe node_modules/probe-x64; : > node_modules/probe/main.js; : > node_modules/probe-x64/run';
const seen = async () => (await installedVersions(programs, program)).map(({ version }) => version);
const left = () => readdirSync(join(dataDir, 'programs', 'probe'));

describe('installing the program of an agent', () => {
  test('gives up an npm that was stopped, and ends it', async () => {
    const npm = npmThat('kill -STOP $$');
    await expect(installProgram(program, { programs, npm })).rejects.toMatchObject({
      code: 'AGENT_INSTALL_FAILED',
      message: expect.stringContaining('was stopped'),
    });
  }, 20_000);

  test('does not wait for a process of npm that keeps the output open', async () => {
    const npm = npmThat(`setsid sleep 20 & echo "$!" > ${JSON.stringify(join(dataDir, 'left'))}; ${WHOLE}`);
    const began = performance.now();
    expect(await installProgram(program, { programs, npm })).toMatchObject({ version: '1.2.3' });
    expect(performance.now() - began).toBeLessThan(10_000);
    process.kill(Number(readFileSync(join(dataDir, 'left'), 'utf8')), 'SIGKILL');
  }, 30_000);

  test('installs the version of the adapter, once, readable for every user', async () => {
    const npm = npmThat(`grep -q '"@cella/probe": "1.2.3"' package.json && ${WHOLE}`);
    const told: string[] = [];
    // As a umask of 077 makes it.
    mkdirSync(join(dataDir, 'programs', 'probe'), { recursive: true, mode: 0o700 });
    const first = await installProgram(program, { programs, npm, onProgress: (text) => told.push(text) });
    expect(first).toMatchObject({ version: '1.2.3', kept: false, missing: [] });
    expect(told[0]).toContain('Installing Probe 1.2.3');
    expect(statSync(join(first.path, 'node_modules/probe/main.js')).mode & 0o777).toBe(0o644);
    for (const folder of ['node_modules', '.', '..', '../..'].map((place) => join(first.path, place))) {
      expect(statSync(folder).mode & 0o777, folder).toBe(0o755);
    }
    expect(await installProgram(program, { programs, npm: npmThat('exit 1') })).toMatchObject({ kept: true });
    expect(await activeProgram(programs, program)).toMatchObject({ path: first.path });
  });

  test('reports npm’s progress from the start: requests, downloads and their size', async () => {
    const lines = [
      'npm warn an old package',
      'npm http fetch GET 200 https://registry/@cella%2fprobe 9ms (cache miss)',
      'npm http fetch GET 200 https://registry/probe-x64 9ms (cache miss)',
    ];
    const tgz = 'npm http cache probe@https://registry/probe/-/probe-1.0.0.tgz 0ms (cache hit)';
    const waitFor = (name: string) => `while [ -e "$0" ] && [ ! -e "$0.${name}" ]; do sleep 0.02; done`;
    const npm = npmThat(
      [
        ...lines.map((line) => `echo '${line}' >&2`),
        waitFor('asked'),
        `echo '${tgz}' >&2`,
        waitFor('fetched'),
        `${WHOLE}; head -c 3000000 /dev/zero > node_modules/probe/data`,
        waitFor('sized'),
      ].join('\n'),
    );
    const told: string[] = [];
    const onProgress = (text: string) => {
      told.push(text);
      if (text.endsWith('asking the registry: 2 packages so far')) writeFileSync(`${npm}.asked`, '');
      if (text.endsWith('fetching 1 package')) writeFileSync(`${npm}.fetched`, '');
      if (text.endsWith('3 of about 1 MB')) writeFileSync(`${npm}.sized`, '');
    };
    await installProgram(program, { programs, npm, onProgress });
    expect(told[0]).toBe('Installing Probe 1.2.3 with npm: asking the registry');
    expect(told.join('\n')).not.toContain(' 0 of');
    expect(told).toEqual([...new Set(told)]);
  });

  test('a failed one is never visible, and leaves nothing behind', async () => {
    const npm = npmThat(`${WHOLE}; echo 'npm error code EACCES' >&2; exit 243`);
    await expect(installProgram(program, { programs, npm })).rejects.toMatchObject({ code: 'AGENT_INSTALL_FAILED' });
    expect([await seen(), left()]).toEqual([[], []]);
    await expect(activeProgram(programs, program)).rejects.toMatchObject({ code: 'AGENT_NOT_INSTALLED' });
  });

  test('npm that reports success but installed only a part is not trusted', async () => {
    const npm = npmThat('mkdir -p node_modules/probe; : > node_modules/probe/main.js');
    await expect(installProgram(program, { programs, npm })).rejects.toMatchObject({
      code: 'AGENT_INSTALL_FAILED',
      message: expect.stringContaining('probe-x64/run'),
    });
    expect([await seen(), left()]).toEqual([[], []]);
  });

  test('a stopped one ends npm and leaves nothing behind', async () => {
    const npm = npmThat('echo $$ > "$0.part"; mv "$0.part" "$0.pid"; exec sleep 600');
    const stop = new AbortController();
    const changes = watch(dataDir);
    const installing = installProgram(program, { programs, npm, signal: stop.signal });
    while (!existsSync(`${npm}.pid`)) await once(changes, 'change');
    changes.close();
    stop.abort();
    await expect(installing).rejects.toMatchObject({ name: 'AbortError' });
    const pid = Number(readFileSync(`${npm}.pid`, 'utf8'));
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect([await seen(), left()]).toEqual([[], []]);
  });

  test.each([
    ['REGISTRY_UNREACHABLE', `echo 'npm error code ENOTFOUND' >&2; exit 1`],
    ['REGISTRY_UNREACHABLE', `echo 'npm error code ECONNREFUSED' >&2; exit 1`],
    ['AGENT_INSTALL_FAILED', `echo 'npm error code ETARGET' >&2; exit 1`],
    ['AGENT_INSTALL_FAILED', 'kill -9 $$'],
  ])('a failure of npm is reported as %s', async (code, script) => {
    await expect(installProgram(program, { programs, npm: npmThat(script) })).rejects.toMatchObject({ code });
  });

  test('a missing npm is reported; a password in an address is not', async () => {
    const npm = '/nowhere/npm';
    await expect(installProgram(program, { programs, npm })).rejects.toMatchObject({ code: 'NPM_MISSING' });
    const telling = npmThat(`echo 'npm error request to https://me:hunter2@registry failed ENOTFOUND' >&2; exit 1`);
    const failure = await installProgram(program, { programs, npm: telling }).catch((error: Error) => error.message);
    expect(failure).toContain('//…@registry');
    expect(failure).not.toContain('hunter2');
  });

  test.each(['latest', '^1.0.0', '../x', '1.2', '$(id)', '1.2.3 --foo'])('%j is no version', async (version) => {
    await expect(installProgram(program, { programs, version })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    await expect(removeProgram(programs, program, version)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });

  test('a damaged one is reported, is not used, and is installed again', async () => {
    const { path } = await installProgram(program, { programs, npm: npmThat(WHOLE) });
    rmSync(join(path, 'node_modules', 'probe'), { recursive: true });
    expect(await installedVersions(programs, program)).toMatchObject([{ missing: ['probe/main.js'] }]);
    await expect(activeProgram(programs, program)).rejects.toMatchObject({ code: 'AGENT_NOT_INSTALLED' });
    expect(await installProgram(program, { programs, npm: npmThat(WHOLE) })).toMatchObject({
      kept: false,
      missing: [],
    });
  });

  test('leftovers of a killed install are removed by the next, and two at once both succeed', async () => {
    mkdirSync(join(dataDir, 'programs', 'probe', '.part-999999999-dead'), { recursive: true });
    const npm = npmThat(WHOLE);
    const both = await Promise.all([
      installProgram(program, { programs, npm }),
      installProgram(program, { programs, npm }),
    ]);
    expect(both).toMatchObject([{ missing: [] }, { missing: [] }]);
    expect(left()).toEqual(['1.2.3', 'used']);
  });

  test('removes one version or all, and reports a missing one', async () => {
    await installProgram(program, { programs, npm: npmThat(WHOLE) });
    await installProgram(program, { programs, npm: npmThat(WHOLE), version: '2.0.0' });
    expect(await removeProgram(programs, program, '2.0.0')).toMatchObject([{ version: '2.0.0' }]);
    expect(await removeProgram(programs, program)).toMatchObject([{ version: '1.2.3' }]);
    await expect(removeProgram(programs, program)).rejects.toMatchObject({ code: 'AGENT_NOT_INSTALLED' });
  });

  test('the version that was installed last is used, even if it existed already', async () => {
    const used = async () => (await findActiveVersion(programs, program))?.version;
    const install = async (version?: string) =>
      await installProgram(program, { programs, npm: npmThat(WHOLE), version });
    expect(await used()).toBe(undefined);
    await install('2.0.0');
    expect(await used()).toBe('2.0.0');
    await install();
    expect(await used()).toBe('1.2.3');
    await install('0.9.0');
    await install('2.0.0');
    expect(await used()).toBe('2.0.0');
    const failing = installProgram(program, { programs, npm: npmThat('exit 1'), version: '3.0.0' });
    await expect(failing).rejects.toMatchObject({ code: 'AGENT_INSTALL_FAILED' });
    expect(await used()).toBe('2.0.0');
  });

  test('if that one is damaged or gone, the tested one is used, else the newest install', async () => {
    const install = async (version: string) =>
      await installProgram(program, { programs, npm: npmThat(WHOLE), version });
    for (const version of ['1.0.0', '1.2.3', '3.0.0', '2.0.0']) await install(version);
    const chosen = await activeProgram(programs, program);
    expect(chosen.version).toBe('2.0.0');
    rmSync(join(chosen.path, 'node_modules', 'probe'), { recursive: true });
    expect(await activeProgram(programs, program)).toMatchObject({ version: '1.2.3' });
    await removeProgram(programs, program, '1.2.3');
    expect(await activeProgram(programs, program)).toMatchObject({ version: '3.0.0' });
    writeFileSync(join(programs, 'probe', 'used'), '../../etc\n');
    expect(await activeProgram(programs, program)).toMatchObject({ version: '3.0.0' });
  });
});
