/** `cella deps`, `skills`, `tools`, `artifacts` and `store`: through the real program, real pip and a real Redis. What needs no
 * process of its own runs in this one. */

import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { removeFolder } from '../../src/environments/files/remove-tree.ts';
import { runHere } from '../support/cli/cli-here.ts';
import { Cella, type StartOptions } from '../support/cli/command.ts';
import { type PackageIndex, startIndex } from '../support/packages/package-index.ts';
import { makeWheel } from '../support/packages/wheels.ts';
import { RedisServer } from '../support/servers/redis.ts';

let cella: Cella;
let folder: string;
beforeEach(() => {
  cella = new Cella();
  folder = mkdtempSync(join(tmpdir(), 'cella-things-'));
});
afterEach(async () => {
  // Package sets cannot be written to: what is in them cannot be removed as it is.
  await removeFolder(join(cella.dataDir, 'packages'));
  cella[Symbol.dispose]();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...words: string[]) => runHere(words, cella.dataDir);
const json = async (...words: string[]) => JSON.parse((await run(...words, '--json')).out);

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const DOUBLE =
  '"""Doubles a number."""\nasync def run(n: int, times: int = 1):\n    print("at work")\n    return n * 2 * times\n';
const SAY = `
name: say
description: Say something
command: echo
schema:
  options: {}
  positional: [{ name: words, variadic: true, type: string }]
recipes:
  hello: { preset: { words: [hello] }, description: Say hello }
`;

describe('cella skills', () => {
  it('creates, lists, shows, finds, runs and deletes them', async () => {
    const source = file('double.py', DOUBLE);
    expect(await run('skills', 'create', 'double', source)).toMatchObject({
      code: 0,
      out: 'Created the skill double(n: int, times: int = 1).\n',
    });
    expect((await run('skills', 'list')).out).toMatch(
      /^NAME +PARAMETERS +UPDATED +DESCRIPTION\ndouble +n: int, .* Doubles/,
    );
    expect(await json('skills', 'search', 'doubling numbers')).toMatchObject({ skills: [{ name: 'double' }] });
    expect((await run('skills', 'show', 'double')).out).toBe(DOUBLE);
    expect(await run('skills', 'run', 'double', 'n=21')).toEqual({ code: 0, out: 'at work\n42\n', err: '' });
    const args = JSON.stringify({ n: 1, times: 3 });
    const events = (await run('skills', 'run', 'double', '--args', args, '--json')).out.trim().split('\n');
    expect(JSON.parse(events.at(-1) ?? '')).toMatchObject({ type: 'result', status: 'ok', value: 6 });
    expect(await json('skills', 'delete', 'double', '--key', 'ada')).toEqual({ deleted: 'double' });
    expect(await run('skills', 'list')).toMatchObject({
      code: 0,
      out: '',
      err: expect.stringContaining('skills create'),
    });
  });

  it('tells what is wrong, and what to do', async () => {
    const source = file('double.py', DOUBLE);
    await run('skills', 'create', 'double', source);
    expect(await run('skills', 'create', 'double', source)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/a skill named double already.*\n.*--replace/),
    });
    expect(await run('skills', 'create', 'double', source, '--replace')).toMatchObject({ code: 0 });
    expect(await json('skills', 'show', 'nobody')).toMatchObject({ code: 'SKILL_NOT_FOUND' });
    expect(await run('skills', 'run', 'double', 'n=much')).toMatchObject({
      code: 2,
      err: 'cella: n must be a whole number, and is "much".\nWrite it as n=VALUE.\n',
    });
    expect(await run('skills', 'run', 'double', '21')).toMatchObject({ code: 2, err: expect.stringContaining('"21"') });
    expect(await run('skills', 'run', 'double')).toMatchObject({
      code: 2,
      err: 'cella: The skill double needs n.\nWrite it as n=VALUE.\n',
    });
    expect(await run('skills', 'create', 'bad', file('bad.py', 'def run(:\n'))).toMatchObject({
      code: 1,
      err: expect.stringContaining('line 1'),
    });
    expect(await run('skills', 'create', 'x', join(folder, 'gone.py'))).toMatchObject({ code: 2 });
  });

  it('treats arguments as data, never as code', async () => {
    await run('skills', 'create', 'echo', file('echo.py', 'async def run(text):\n    return text\n'));
    const text = `"); import os; os._exit(3) #\n'\\ 日本 \u{1f600}`;
    const { out } = await cella.run(['skills', 'run', 'echo', '--json', '--args', JSON.stringify({ text })]);
    expect(JSON.parse(out)).toMatchObject({ status: 'ok', value: text });
  });
});

describe('cella tools', () => {
  it('creates, lists, shows, finds, calls and deletes them', async () => {
    expect(await run('tools', 'create', file('say.yaml', SAY))).toMatchObject({
      code: 0,
      out: expect.stringContaining('say('),
    });
    expect((await run('tools', 'list')).out).toMatch(/^NAME .*\nsay +cli +in the sandbox +hello +Say something\n$/);
    expect((await run('tools', 'show', 'say')).out).toMatch(/say\(\*words\)[\s\S]*Recipes:\n {2}say\.hello/);
    expect(await json('tools', 'search', 'say')).toMatchObject({ tools: [{ name: 'say' }] });
    expect(await run('tools', 'call', 'say', 'one', 'two; $(id)')).toEqual({
      code: 0,
      out: 'one two; $(id)\n',
      err: '',
    });
    expect(await json('tools', 'call', 'say.hello')).toEqual({ tool: 'say', recipe: 'hello', result: 'hello\n' });
    expect(await run('tools', 'delete', 'say')).toMatchObject({ code: 0 });
    expect(await run('tools', 'delete', 'say')).toMatchObject({ code: 1, err: expect.stringContaining('tools list') });
  });

  it('says to call the tools of an MCP server, not the server', async () => {
    const server = 'name: office\ntype: mcp\nurl: http://127.0.0.1:1/mcp\n';
    expect(await run('tools', 'create', file('office.yaml', server))).toMatchObject({
      code: 0,
      out: 'Created the tool office.TOOL(...).\n',
    });
  });

  it('also reads folders, and a broken definition does not affect the others', async () => {
    file('say.yaml', SAY);
    file('broken.yaml', 'name: broken\n  command: [\n');
    const { out, err } = await run('tools', 'list', '--tools', folder);
    expect(out).toContain('say ');
    expect(err).toMatch(/broken\.yaml/);
    expect(await run('tools', 'call', 'say', 'hi', '--tools', folder)).toMatchObject({ code: 0, out: 'hi\n' });
    const inKernel = await cella.run(['run', '-c', 'print(tools.say("hi"), end="")'], { env: { CELLA_TOOLS: folder } });
    expect(inKernel).toMatchObject({ code: 0, out: 'hi\n' });
  });

  it('reads the secret of a tool from a variable, and gives it only to that tool', async () => {
    const script = 'printf %s $KEY | wc -c';
    const yaml = `name: key\ndescription: x\ncommand: [sh, -c, ${script}]\nruns_on: host\nenv: { KEY: { credential: my-key } }\n`;
    await run('tools', 'create', file('key.yaml', yaml));
    expect(await run('tools', 'call', 'key')).toMatchObject({
      code: 1,
      err: expect.stringContaining('CELLA_CREDENTIAL_'),
    });
    const code = 'import os; print(tools.key().strip(), "hush" in str(os.environ))';
    const told = await cella.run(['run', '-c', code], { env: { CELLA_CREDENTIAL_MY_KEY: 'hush-hush' } });
    expect(told).toMatchObject({ code: 0, out: '9 False\n' });
  });

  it('says what is wrong with a call, a name or a definition', async () => {
    await run('tools', 'create', file('say.yaml', SAY));
    expect(await json('tools', 'call', 'nobody')).toMatchObject({ type: 'error', code: 'TOOL_NOT_FOUND' });
    expect(await run('tools', 'call', 'say', 'loud=1')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/no argument "loud"\. It takes words\.\n.*tools show/),
    });
    expect(await run('tools', 'call', 'say.goodbye')).toMatchObject({
      code: 1,
      err: expect.stringContaining('It has hello'),
    });
    expect(await run('tools', 'call', 'say', '--args', 'words')).toMatchObject({ code: 2 });
    const { code, err } = await run('tools', 'create', file('wrong.yaml', 'name: wrong\ntimeout: soon\n'));
    expect([code, err]).toEqual([1, expect.stringMatching(/wrong\.yaml:2 .*timeout/)]);
  });

  it('asks before it calls one that requires approval', async () => {
    await run('tools', 'create', file('say.yaml', `${SAY}requires_approval: true\n`));
    expect(await run('tools', 'call', 'say', 'hi')).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/nobody can be asked\.\n.*--approve/),
    });
    expect(await run('tools', 'call', 'say', 'hi', '--approve')).toMatchObject({ code: 0, out: 'hi\n' });
    for (const [answer, exitCode] of [
      ['y', 0],
      ['', 1],
    ] as const) {
      const asked = cella.start(['tools', 'call', 'say', 'hi'], { terminal: true });
      await asked.says('[y/N]');
      expect(asked.out).toContain('echo hi');
      asked.type(`${answer}\r`);
      expect(await asked.ended).toBe(exitCode);
    }
  });
});

describe('cella artifacts', () => {
  it('saves, lists, loads and deletes them, byte by byte', async () => {
    const bytes = randomBytes(3_000_000);
    const source = file('picture.png', bytes);
    expect(await run('artifacts', 'save', 'picture.png', source, '--description', 'A picture')).toMatchObject({
      code: 0,
      out: 'Saved the artifact "picture.png" (file, 3.0 MB).\n',
    });
    await cella.run(['artifacts', 'save', 'note', '-', '--type', 'text'], { input: 'hello' });
    expect((await run('artifacts', 'list')).out).toMatch(
      /note +text +5 bytes .*\npicture\.png +file +3\.0 MB .* A picture\n/,
    );
    const copy = join(folder, 'copy.png');
    expect(await json('artifacts', 'load', 'picture.png', '--out', copy)).toMatchObject({
      artifact: { size: 3_000_000 },
    });
    expect(readFileSync(copy).equals(bytes)).toBe(true);
    expect(await run('artifacts', 'load', 'note')).toEqual({ code: 0, out: 'hello', err: '' });
    expect(await json('artifacts', 'show', 'note')).toMatchObject({ artifact: { type: 'text', size: 5 } });
    expect(await run('artifacts', 'load', 'note', '--json')).toMatchObject({ code: 2 });
    expect(await run('run', '-c', 'artifacts.load("note")')).toMatchObject({ out: "'hello'\n" });
    expect(await run('artifacts', 'delete', 'note')).toMatchObject({ code: 0 });
    expect(await json('artifacts', 'show', 'note')).toMatchObject({ code: 'ARTIFACT_NOT_FOUND' });
  });

  it('refuses invalid values, and writes no bytes to a terminal', async () => {
    const source = file('data.bin', 'x');
    for (const name of ['../x', 'x'.repeat(300)]) {
      expect(await run('artifacts', 'save', name, source)).toMatchObject({
        code: 1,
        err: expect.stringContaining('name'),
      });
    }
    expect(await run('artifacts', 'save', '', source)).toMatchObject({ code: 2 });
    expect(await run('artifacts', 'save', 'x', folder)).toMatchObject({
      code: 2,
      err: expect.stringContaining('a folder'),
    });
    await run('artifacts', 'save', 'data.bin', source);
    const shown = await cella.run(['artifacts', 'load', 'data.bin'], { terminal: true, input: '' });
    expect(shown).toMatchObject({ code: 2, out: expect.stringContaining('--out FILE') });
    const nowhere = join(folder, 'no', 'where');
    expect(await run('artifacts', 'load', 'data.bin', '--out', nowhere)).toMatchObject({ code: 2 });
  });
});

describe('cella deps', () => {
  let wheels: string;
  let index: PackageIndex;
  beforeAll(async () => {
    wheels = mkdtempSync(join(tmpdir(), 'cella-wheels-'));
    // Another user installs.
    chmodSync(wheels, 0o755);
    await makeWheel(wheels, 'tiny');
    await makeWheel(wheels, 'pair', { requires: ['tiny'] });
    index = await startIndex(wheels);
  });
  afterAll(async () => {
    await index.close();
    rmSync(wheels, { recursive: true, force: true });
  });
  const withIndex = (words: string[], options: StartOptions = {}) =>
    cella.run(words, { ...options, env: { CELLA_INDEX: index.url } });

  it('installs, lists and removes packages that code can import', async () => {
    const added = await withIndex(['deps', 'add', 'tiny', 'nowhere-to-be-found']);
    expect(added).toMatchObject({ code: 1, out: 'Installed tiny.\n' });
    expect(added.err).toMatch(/Collecting tiny[\s\S]*nowhere-to-be-found could not be installed: .*No matching/);
    expect(await run('deps', 'list')).toEqual({ code: 0, out: 'tiny\n', err: '' });
    expect(await withIndex(['run', '-c', 'import tiny; tiny.VERSION'])).toEqual({ code: 0, out: "'1.0.0'\n", err: '' });
    const removed = await withIndex(['deps', 'remove', 'tiny', '--json']);
    expect(JSON.parse(removed.out)).toMatchObject({ removed: ['tiny'], failed: [] });
    expect(removed.err).toBe('');
    expect(await withIndex(['deps', 'remove', 'tiny'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('deps list'),
    });
    expect(await withIndex(['run', '-c', 'import tiny'])).toMatchObject({ code: 1 });
  });

  /** What begins the line anew is `<`. */
  const plain = (text: string) => text.replaceAll('\r\u001b[K', '<');

  it('shows one line of progress at a terminal, also when code installs', async () => {
    const shown = await withIndex(['deps', 'add', 'tiny'], { terminal: true });
    expect(plain(shown.out)).toMatch(/<Collecting tiny<[\s\S]*<Installed tiny\.\r\n$/);
    const inCode = await withIndex(['run', '-c', 'r = deps.add("pair"); import pair; print(r["installed"])'], {
      terminal: true,
    });
    expect(plain(inCode.out)).toMatch(/<Collecting pair<[\s\S]*<\['pair'\]\r\n$/);
  });

  it('installs the list before the code runs, uses wheels from a folder, and can be locked', async () => {
    const place = ['--no-index', '--wheels', wheels];
    expect(await run('deps', 'add', 'tiny', ...place)).toMatchObject({ code: 0 });
    await removeFolder(join(cella.dataDir, 'packages'));
    const code = 'import tiny; deps.add("pair")';
    const locked = await run('run', '--sync-deps', '--no-runtime-deps', ...place, '-c', code);
    expect(locked).toMatchObject({ code: 1, err: expect.stringMatching(/Installing tiny[\s\S]*packages are locked/) });
  });

  it('refuses an invalid requirement, and reports an index that does not answer', async () => {
    for (const wrong of ['x; rm -rf /', 'git+https://example.org/x', '-r file']) {
      expect(await run('deps', 'add', '--json', '--', wrong)).toMatchObject({
        code: 1,
        out: expect.stringContaining('DEPS_INVALID'),
      });
    }
    const down = await cella.run(['deps', 'add', 'tiny'], { env: { CELLA_INDEX: 'http://127.0.0.1:1/simple' } });
    expect(down).toMatchObject({ code: 1, err: expect.stringContaining('did not answer') });
    expect(await run('deps', 'add', 'tiny', '--index', 'ftp://x')).toMatchObject({ code: 2 });
  });
});

describe('Redis storage', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis.remove());
  /** A test has keys of its own. */
  const prefix = () => `p${cella.dataDir.slice(-6)}`;
  const place = () => ['--redis', redis.url, '--prefix', prefix()];

  it('shares variables and namespaces between machines, and not between prefixes', async () => {
    await run('run', ...place(), '-c', 'x = 41');
    await run('skills', 'create', 'double', file('double.py', DOUBLE), ...place());
    using other = new Cella();
    const env = { CELLA_STORAGE: 'redis', CELLA_REDIS: redis.url, CELLA_PREFIX: prefix() };
    expect(await other.run(['run', '-c', 'x + 1'], { env })).toMatchObject({ code: 0, out: '42\n' });
    expect((await other.run(['ps', '--json'], { env })).out).toContain('"agentKey":"default"');
    expect((await other.run(['checkpoints', 'list'], { env })).out).toContain('(automatic)');
    const shown = await other.run(['skills', 'list', '--json'], { env });
    expect(JSON.parse(shown.out)).toMatchObject({ skills: [{ name: 'double' }] });
    const apart = await other.run(['skills', 'list', '--json'], { env: { ...env, CELLA_PREFIX: `${prefix()}x` } });
    expect(JSON.parse(apart.out)).toEqual({ skills: [], problems: [] });
  });

  it('copies from files and back', async () => {
    await run('skills', 'create', 'double', file('double.py', DOUBLE));
    await run('tools', 'create', file('say.yaml', SAY));
    await run('artifacts', 'save', 'data', file('data', randomBytes(100_000)));
    const target = `${redis.url}/?prefix=${prefix()}`;
    expect(await run('storage', 'push', target)).toMatchObject({
      code: 0,
      out: `Copied 1 tool, 1 skill, 1 artifact to ${target}.\n`,
    });
    expect(await run('storage', 'push', target, '--only', 'skills')).toMatchObject({
      code: 0,
      err: expect.stringContaining('--overwrite'),
    });
    expect(await json('storage', 'list', target)).toMatchObject({
      tools: ['say'],
      skills: ['double'],
      artifacts: [{ name: 'data', size: 100_000 }],
      deps: [],
    });
    using other = new Cella();
    const pulled = await other.run(['storage', 'pull', target, 'double', '--json']);
    expect(JSON.parse(pulled.out)).toMatchObject({ copied: [{ kind: 'skills', name: 'double' }], skipped: [] });
    expect((await other.run(['storage', 'list'])).out).toMatch(/^KIND +NAME\nskill +double\n$/);
    expect(await run('storage', 'pull', target, 'nobody')).toMatchObject({
      code: 1,
      err: `cella: Not found in ${target}: nobody.\n`,
    });
    expect(await run('storage', 'pull', join(folder, 'gone'))).toMatchObject({ code: 2 });
  });

  it('that is missing or not configured is reported at once', async () => {
    expect(await run('skills', 'list', '--redis', 'redis://127.0.0.1:1', '--json')).toMatchObject({
      code: 1,
      out: expect.stringMatching(/STORAGE_UNREACHABLE/),
    });
    expect(await run('run', '--storage', 'redis', '-c', '1')).toMatchObject({ code: 2 });
  });

  it('is checked by doctor', async () => {
    expect((await run('doctor', '--redis', redis.url)).out).toContain(`✓ redis       ${redis.url} keeps`);
    await using forgetful = await RedisServer.start({ args: ['--appendonly', 'no'] });
    const { out } = await run('doctor', '--redis', forgetful.url, '--json');
    const told = JSON.parse(out);
    expect(told.redis.problems[0]).toContain('would lose everything');
    expect(told.installer.name).toMatch(/^(uv|pip) /);
  });
});

describe('in a chat', () => {
  it('has all of them', async () => {
    await run('skills', 'create', 'double', file('double.py', DOUBLE));
    await run('tools', 'create', file('say.yaml', SAY));
    await run('artifacts', 'save', 'note', file('note', 'x'));
    const wheels = mkdtempSync(join(tmpdir(), 'cella-wheels-'));
    chmodSync(wheels, 0o755);
    await makeWheel(wheels, 'tiny');
    const lines = [
      '/skills',
      '/skills run double n=2',
      '/tools call say "a  b"',
      '/artifacts show note',
      '/deps add tiny',
    ];
    const input = [...lines, '/py import tiny; tiny.VERSION', '/history', '/tools cal', '/skills show nobody', '/quit'];
    const flags = ['--no-index', '--wheels', wheels];
    const { code, out, err } = await cella.run(['chat', ...flags], {
      input: input.map((line) => `${line}\n`).join(''),
    });
    rmSync(wheels, { recursive: true, force: true });
    expect(code).toBe(0);
    expect(out).toMatch(/^NAME .*\ndouble .*\nat work\n4\na {2}b\nnote\n {2}type[\s\S]*\n'1\.0\.0'\n/);
    expect(out).toContain('/skills run double n=2');
    expect(err).toContain('Did you mean /tools call?');
    expect(err).toContain('There is no skill named "nobody".');
  });

  it('replies to a program in JSON', async () => {
    const { out } = await cella.run(['chat', '--json'], { input: '/deps\n/skills\n/tools\n/artifacts\n' });
    const replies = out.trim().split('\n').slice(1);
    expect(replies.map((line) => JSON.parse(line))).toMatchObject([
      { type: 'reply', command: 'deps', deps: [] },
      { type: 'reply', command: 'skills', skills: [] },
      { type: 'reply', command: 'tools', tools: [] },
      { type: 'reply', command: 'artifacts', artifacts: [] },
    ]);
  });
});
