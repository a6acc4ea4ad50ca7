/** Choosing where code runs from the command line, and what is told where that cannot be. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { McpHost } from '../mcp/client.ts';
import { Cella } from '../support/cli/command.ts';
import { canRunDocker } from '../support/docker/docker.ts';
import { sharedEngineWithImage } from '../support/docker/shared-docker.ts';
import { makeWheel } from '../support/packages/wheels.ts';
import { shareCache } from '../support/run/shared-cache.ts';

const cella = new Cella();
shareCache(cella.dataDir);
const empty = mkdtempSync(join(tmpdir(), 'cella-no-python-'));
// Whoever installs packages is another user.
chmodSync(empty, 0o755);
afterAll(() => {
  cella[Symbol.dispose]();
  rmSync(empty, { recursive: true, force: true });
});

const noPython = { env: { PATH: empty, CELLA_PYTHON: '' } };
const waysOut = /--executor container .*--executor in-process runs\s+trusted code/;

describe('a machine without a Python', () => {
  it('gets an error with both alternatives as flags, if nobody chose an executor', async () => {
    for (const flags of [[], ['--executor', 'auto']]) {
      const { code, out, err } = await cella.run(['run', ...flags, '-c', '1'], noPython);
      expect([code, out]).toEqual([1, '']);
      expect(err).toMatch(/^cella: There is no python3 on PATH/);
      expect(err).toMatch(waysOut);
    }
  });

  it('gets an error without alternatives if subprocess was chosen', async () => {
    const { err } = await cella.run(['run', '--executor', 'subprocess', '-c', '1'], noPython);
    expect(err).toMatch(/^cella: There is no python3 on PATH/);
    expect(err).not.toMatch(waysOut);
  });

  it('is checked by doctor all the same, which reports the executors that need no Python', async () => {
    const { code, out } = await cella.run(['doctor', '--json'], noPython);
    const { problem, executors } = JSON.parse(out);
    expect([code, problem]).toEqual([1, expect.stringContaining('no python3 on PATH')]);
    expect(executors).toMatchObject([
      { name: 'subprocess', available: false, fix: expect.stringContaining('--python') },
      { name: 'container' },
      { name: 'in-process', available: true, detail: expect.stringMatching(/Pyodide \d.*isolates nothing/) },
    ]);
  });
});

describe('the executor', () => {
  it('is subprocess for auto', async () => {
    const { out } = await cella.run(['run', '--executor', 'auto', '-c', '6 * 7']);
    expect(out).toBe('42\n');
    const chat = await cella.run(['chat', '--json', '--executor', 'auto']);
    expect(JSON.parse(chat.out)).toMatchObject({
      executor: 'subprocess',
      capabilities: { threads: true, liveFork: true },
    });
  });

  it('of a variable with an unknown name is reported', async () => {
    const { code, err } = await cella.run(['run', '-c', '1'], { env: { CELLA_EXECUTOR: 'docker' } });
    expect([code, err]).toEqual([2, expect.stringContaining('CELLA_EXECUTOR is "docker"')]);
  });

  it.each([
    [['--executor', 'container', '--sandbox', 'off'], '--sandbox: cannot be off with the executor `container`'],
    [['--executor', 'container', '--python', 'python3'], '--python: container brings its own'],
    [['--executor', 'in-process', '--python', 'python3'], '--python: in-process brings its own'],
  ])('refuses options that it does not support: %j', async (flags, problem) => {
    const { err } = await cella.run(['run', ...flags, '-c', '1']);
    expect(err).toContain(problem);
  });

  it('is checked by the MCP server as by every other command', async () => {
    const { code, err } = await cella.run(['mcp', '--image', 'mine']);
    expect([code, err]).toEqual([2, expect.stringContaining('--image cannot be used with the executor auto')]);
  });
});

describe('in-process', () => {
  it('runs code without any Python of the machine, and says what it cannot do', async () => {
    const flags = ['--executor', 'in-process'];
    const ran = await cella.run(['run', ...flags, '-c', 'import sys; sys.platform'], noPython);
    expect(ran).toEqual({ code: 0, out: "'emscripten'\n", err: '' });
    const env = { ...noPython.env, CELLA_EXECUTOR: 'in-process', CELLA_AUTO_SH: '1' };
    const chat = await cella.run(['chat', '--json'], { env, input: '/sh echo hello\n' });
    const [first, second] = chat.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(first).toMatchObject({ executor: 'in-process', capabilities: { subprocesses: false, liveFork: false } });
    expect(second).toMatchObject({ type: 'error', code: 'CAPABILITY_MISSING' });
    expect(second.advice).toContain('--executor subprocess');
  });

  it('is named at a terminal, with the note that it isolates nothing', async () => {
    const data = join(empty, 'first');
    mkdirSync(data);
    shareCache(data);
    const repl = cella.start(['repl', '--executor', 'in-process', '--data', data], { terminal: true });
    await repl.says('>>> ');
    expect(repl.out).toContain('Python in WebAssembly, with no isolation. ');
    repl.type('\x04');
    expect(await repl.ended).toBe(0);
    const chat = cella.start(['chat', '--executor', 'in-process', '--data', data], { terminal: true });
    await chat.says('chat> ');
    expect(chat.out).toContain('/py CODE runs Python in WebAssembly, with no isolation. /help lists the rest.');
    chat.type('\x04');
    expect(await chat.ended).toBe(0);
  });
});

describe('an MCP server', () => {
  it('runs code with the executor of its flags, and lists packages without a Python on the machine', async () => {
    using host = new McpHost();
    shareCache(host.dataDir);
    await using connected = await host.stdio({ flags: ['--executor', 'in-process'], env: noPython.env });
    expect((await connected.run('import sys; sys.platform')).text).toContain('emscripten');
    expect((await connected.call('list_deps')).isError).not.toBe(true);
    const { tools } = await connected.client.listTools();
    const told = tools.find(({ name }) => name === 'run_code')?.description;
    expect(told).toContain('no threads, no subprocesses, no shell and no network');
    expect(told).not.toContain('sandboxed');
  });
});

describe('packages', () => {
  it('are installed for the Python of the named executor, without a Python on the machine', async () => {
    const wheels = join(empty, 'wheels');
    await makeWheel(wheels, 'tiny');
    const place = ['--no-index', '--wheels', wheels];
    const executor = ['--executor', 'in-process'];
    const added = await cella.run(['deps', 'add', 'tiny', ...executor, ...place, '--json'], noPython);
    expect(JSON.parse(added.out)).toMatchObject({ installed: ['tiny'], failed: [] });
    const code = ['-c', 'import tiny; tiny.VERSION'];
    expect(await cella.run(['run', ...executor, ...place, ...code], noPython)).toMatchObject({ out: "'1.0.0'\n" });
    const { err } = await cella.run(['run', ...place, ...code]);
    expect(err).toContain('ModuleNotFoundError');
    expect(err).toMatch(
      /cella: tiny: on the list, but not all installed for this Python \(cp3.*Install with `cella deps sync`/,
    );
    expect(JSON.parse((await cella.run(['deps', 'list', '--json'], noPython)).out)).toMatchObject({ deps: ['tiny'] });
  });
});

/** The first who asks for the image waits until it is made. */
const LONG = { timeout: 240_000 };

describe.skipIf(!canRunDocker)('a container', LONG, () => {
  it('runs code in the image of the named engine, by flag or variable', async () => {
    const engine = await sharedEngineWithImage();
    const code = 'import os; os.path.exists("/.dockerenv")';
    const flags = ['--executor', 'container', '--engine', engine];
    expect(await cella.run(['run', ...flags, '-c', code])).toEqual({ code: 0, out: 'True\n', err: '' });
    const env = { CELLA_EXECUTOR: 'container', CELLA_ENGINE: engine };
    expect(await cella.run(['run', '-c', code], { env })).toMatchObject({ code: 0, out: 'True\n' });
    using host = new McpHost();
    shareCache(host.dataDir);
    await using connected = await host.stdio({ flags });
    expect((await connected.run(code)).text).toContain('True');
  });

  it('is reported by doctor: whether it can start, and whether its image exists', async () => {
    const engine = await sharedEngineWithImage();
    const asked = await cella.run(['doctor', '--engine', engine, '--json']);
    expect(JSON.parse(asked.out).executors[1]).toMatchObject({
      available: true,
      detail: expect.stringContaining(engine),
    });
    const missing = await cella.run(['doctor', '--engine', engine, '--image', 'cella-none:there', '--json']);
    expect(JSON.parse(missing.out).executors[1]).toMatchObject({
      available: false,
      detail: expect.stringContaining('cella-none:there'),
      fix: expect.stringContaining('cella images build'),
    });
    const ran = await cella.run([
      'run',
      '--executor',
      'container',
      '--engine',
      engine,
      '--image',
      'cella-none:there',
      '-c',
      '1',
    ]);
    expect([ran.code, ran.err]).toEqual([1, expect.stringContaining('cella-none:there')]);
  });
});

describe('a missing container engine', () => {
  const engine = 'unix:///nonexistent/engine.sock';

  it('is reported by doctor with its address, and affects nothing else', async () => {
    const asked = await cella.run(['doctor', '--engine', engine, '--json']);
    const { executors } = JSON.parse(asked.out);
    expect(executors[1]).toMatchObject({
      name: 'container',
      available: false,
      fix: expect.stringContaining('--engine'),
    });
    expect(executors[1].detail).toContain('/nonexistent/engine.sock');
    const ran = await cella.run(['run', '--executor', 'container', '--engine', engine, '-c', '1']);
    expect([ran.code, ran.err]).toEqual([1, expect.stringMatching(/nonexistent\/engine\.sock[\s\S]*--engine/)]);
    const named = await cella.run(['doctor', '--json'], { env: { CELLA_ENGINE: engine } });
    expect(JSON.parse(named.out).executors[1].detail).toContain('/nonexistent/engine.sock');
  });
});
