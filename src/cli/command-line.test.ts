import { EventEmitter } from 'node:events';
import { constants } from 'node:os';
import { PassThrough, Readable, Writable } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { BackendSelector } from './backend/backend-selector.ts';
import { LocalBackend } from './backend/local-backend.ts';
import { runCommandLine } from './command-line.ts';
import { CliTerminal } from './terminal/terminal.ts';

const noPython = new CellaError('PYTHON_NOT_FOUND', 'There is no Python.');

function failingBackend(failure: Error): BackendSelector {
  const backend = new BackendSelector(new LocalBackend());
  const work = ['openSession', 'listKernels', 'openNamespaces', 'listStorage', 'openCheckpoints'] as const;
  for (const name of work) vi.spyOn(backend, name).mockRejectedValue(failure);
  return backend;
}

async function cellaWith(
  words: string[],
  { failure = noPython as Error, stderr = new PassThrough() as Writable } = {},
) {
  const stdout = new PassThrough();
  const exitCode = await runCommandLine(words, {
    terminal: new CliTerminal({ stdin: Readable.from([]), stdout, stderr }),
    signals: new EventEmitter(),
    version: '1.2.3',
    defaults: { agentKey: undefined, dataDir: '/', python: undefined },
    backend: failingBackend(failure),
  });
  const err = stderr instanceof PassThrough ? String(stderr.read() ?? '') : '';
  return { exitCode, out: String(stdout.read() ?? ''), err };
}

const cella = (...words: string[]) => cellaWith(words);

const setKey = 'For example: `cella credentials set anthropic`. Run `cella credentials set --help`';

/** The names below "Commands:" on a page of help. `help` has no page of its own. */
function commandsOf(page: string): string[] {
  const [, rows = ''] = /^Commands:\n((?: {2}.*\n)+)/m.exec(page) ?? [];
  return [...rows.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
}

describe('the command line', () => {
  it('shows its help without arguments', async () => {
    const { exitCode, out } = await cella();
    expect(exitCode).toBe(0);
    expect(out).toContain('Examples:');
    expect(commandsOf(out)).toContain('run');
  });

  it('has examples for every command', async () => {
    const missing: string[] = [];
    const visit = async (words: readonly string[]): Promise<void> => {
      const { exitCode, out } = await cella(...words, '--help');
      if (exitCode !== 0 || !out.includes(`$ ${['cella', ...words].join(' ')}`)) missing.push(words.join(' '));
      for (const name of commandsOf(out)) await visit([...words, name]);
    };
    await visit([]);
    expect(missing).toEqual([]);
  });

  it.each([
    ['deps', ['add', 'remove', 'list', 'sync']],
    ['skills', ['list', 'show', 'search', 'create', 'delete', 'run']],
    ['tools', ['list', 'show', 'search', 'call', 'create', 'delete']],
    ['artifacts', ['list', 'show', 'load', 'save', 'delete']],
    ['storage', ['list', 'pull', 'push']],
  ])('has examples for %s, flags for storage and for programs', async (group, names) => {
    for (const name of names) {
      const { exitCode, out } = await cella(group, name, '--help');
      expect(exitCode).toBe(0);
      for (const text of [`$ cella ${group} ${name}`, '--json', '--storage', '--redis', '--prefix']) {
        expect(out).toContain(text);
      }
    }
  });

  it.each([
    ['serve', ['status', 'stop']],
    ['users', ['list', 'show', 'create', 'update', 'disable', 'enable', 'delete', 'login', 'logout']],
    ['tokens', ['list', 'create', 'revoke']],
    ['credentials', ['set', 'list', 'delete', 'rotate']],
  ])('has examples for %s, and flags for programs', async (group, names) => {
    for (const name of names) {
      const { exitCode, out } = await cella(group, name, '--help');
      expect(exitCode).toBe(0);
      for (const text of [`$ cella ${group} ${name}`, '--json', '--data', '--config']) expect(out).toContain(text);
    }
  });

  it('does not repeat an extra argument: it may be the key', async () => {
    const { exitCode, err } = await cella('credentials', 'set', 'anthropic', 'sk-CANARY');
    expect([exitCode, err.includes('CANARY')]).toEqual([2, false]);
  });

  it('prints its version', async () => expect(await cella('--version')).toMatchObject({ exitCode: 0, out: '1.2.3\n' }));

  it('shows the help of a command after `help`', async () => {
    expect((await cella('help', 'run')).out).toContain('$ cella run');
    expect((await cella('help', 'checkpoints', 'create')).out).toContain('$ cella checkpoints create');
    expect((await cella('help')).out).toContain('Commands:');
  });

  describe.each([
    [['rnu'], 'Did you mean `cella run`?', '`cella --help`'],
    [['agent', 'Fix it'], 'Did you mean `cella prompt`?', '`cella --help`'],
    [['start'], 'Did you mean `cella serve`?', '`cella --help`'],
    [['stop'], 'Did you mean `cella serve stop`?', '`cella --help`'],
    [['login'], 'Did you mean `cella users login`?', '`cella --help`'],
    [['install', 'claude'], 'Did you mean `cella agents install`?', '`cella --help`'],
    [['deps', 'install', 'httpx'], 'Did you mean `cella deps add`?', '`cella deps --help`'],
    [['--key', 'ada', 'run'], 'unknown option', 'Options follow the command.'],
    [['users', 'rm', 'ada'], 'Did you mean `cella users delete`?', '`cella users --help`'],
    [['sessions', 'terminal', 'ada'], 'Did you mean `cella sessions exec`?', '`cella sessions --help`'],
    [['help', 'rnu'], 'Unknown command `cella rnu`', '`cella --help`'],
    [['--'], 'command is missing', '`cella --help`'],
    [['run', '--tiemout', '3'], 'Did you mean --timeout?', '`cella run --help`'],
    [['run', '--timeout'], 'argument missing', '`cella run --help`'],
    [['run', '--timeout', 'soon', '-c', '1'], 'a number of seconds', '`cella run --help`'],
    [['run', 'a.py', 'b.py'], 'takes <file> and no other argument; there are 2.', '`cella run --help`'],
    [['run'], 'no program', '`cella run --help`'],
    [['run', ''], 'no program', '`cella run --help`'],
    [['run', '-c', '1', 'a.py'], 'only one program', '`cella run --help`'],
    [['run', '-c', '1', '-c', '2'], 'Only one program', '`cella run --help`'],
    [['run', '--sandbox', 'maybe'], 'on, off', '`cella run --help`'],
    [['run', '--executor', 'docker', '-c', '1'], 'auto, subprocess, container, in-process', '`cella run --help`'],
    [['run', '--image', 'mine', '-c', '1'], '--image cannot be used with the executor auto', '--executor container'],
    [['mcp', '--engine', 'unix:///x'], '--engine cannot be used with the executor auto', '--executor container'],
    [['chat', '--executor', 'in-process', '--network', 'none'], 'has no sandbox', 'Leave out --network'],
    [['run', '--executor', 'container', '--image', '', '-c', '1'], 'must not be empty', '`cella run --help`'],
    [['run', '--cwd', '', '-c', '1'], 'must not be empty', '`cella run --help`'],
    [['run', '--data', '', '-c', '1'], 'must not be empty', '`cella run --help`'],
    [['run', '--sandbox', 'off', '--memory', '64', '-c', '1'], 'Without the sandbox', '--memory'],
    [['run', '--sandbox', 'off', '--network', 'none', '-c', '1'], 'Without the sandbox', '--network none'],
    [['run', '--network', 'some', '-c', '1'], 'none, host, and allow:', '`cella run --help`'],
    [['run', '--network', 'allow:http://a.org', '-c', '1'], 'is not a host such as', '`cella run --help`'],
    [['run', 'missing.py'], 'does not exist', 'Name a Python file'],
    [['run', '--transaction', 'explicit', '-c', '1'], 'this command ends before that', '`cella run --help`'],
    [['run', '--transaction', 'maybe', '-c', '1'], 'commit_on_success, rollback_on_failure', '`cella run --help`'],
    [['chat', '--auto-shell'], 'Did you mean --auto-sh?', '`cella chat --help`'],
    [['chat', '--key'], 'argument missing', '`cella chat --help`'],
    [['chat', 'hello'], 'takes no argument; there is one.', '`cella chat --help`'],
    [['checkpoints'], 'command is missing', '`cella checkpoints --help`'],
    [['checkpoints', 'craete'], 'Did you mean `cella checkpoints create`?', '`cella checkpoints --help`'],
    [['checkpoints', 'create'], '`cella checkpoints create` needs <name>', '`cella checkpoints create --help`'],
    [['checkpoints', 'create', ''], 'must not be empty', '`cella checkpoints create --help`'],
    [['checkpoints', 'restore', 'a', 'b'], 'and no other argument', '`cella checkpoints restore --help`'],
    [['checkpoints', 'list', '--sandbox', 'off'], 'unknown option', '`cella checkpoints list --help`'],
    [['help', 'checkpoints', 'craete'], 'Unknown command `cella checkpoints craete`', '`cella --help`'],
    [['fork'], '`cella fork` needs <key>', '`cella fork --help`'],
    [['fork', 'default'], 'another agent key', 'Name another'],
    [['fork', '~ada/x'], 'begins with ~', 'Name another'],
    [['run', '--key', '~ada/x', '-c', '1'], 'begins with ~', '--key'],
    [['chat', '--key', '~x'], 'begins with ~', '--key'],
    [['mcp', '--key', '~x'], 'begins with ~', '--key'],
    [['checkpoints', 'list', '--key', '~x'], 'begins with ~', '--key'],
    [['users'], 'A command is missing: list, ', '`cella users --help`'],
    [['users', 'create', 'ada', '--role', 'king'], 'viewer, member, admin', '`cella users create --help`'],
    [['users', 'update', 'ada', '--kernels', 'many'], 'a whole number, or none', '`cella users update --help`'],
    [['tokens', 'create'], "required option '--name <name>'", '`cella tokens create --help`'],
    [['tokens', 'create', '--name', 'x', '--scopes', 'fly'], 'view, use, manage', '`cella tokens create --help`'],
    [['tokens', 'create', '--name', 'x', '--expires', 'soon'], '30m, 12h or 90d', '`cella tokens create --help`'],
    [['credentials', 'set'], '`cella credentials set` needs <provider>: anthropic, openai, gemini.', setKey],
    [['credentials', 'set', 'foo'], '<provider> cannot be "foo". Allowed are anthropic, openai, gemini.', setKey],
    [['credentials', 'set', 'openai', 'k'], 'takes <provider> and no other argument; there are 2.', setKey],
    [['permissions', 'rules', 'create', 'Bash'], 'needs <pattern>: such as "ls *"', "rules create Bash 'ls *'`"],
    [['serve', '--port', 'http'], 'a port from 1 to 65535', '`cella serve --help`'],
    [['serve', 'stpo'], 'Did you mean `cella serve stop`?', '`cella serve --help`'],
    [['serve', 'stop', '--timeout', 'soon'], 'a number of seconds', '`cella serve stop --help`'],
    [['ps', '--key', 'a'], 'unknown option', '`cella ps --help`'],
    [['repl', '--python', ''], 'must not be empty', '`cella repl --help`'],
    [['repl', 'a.py'], 'takes no argument', '`cella repl --help`'],
    [['doctor', '--python', ''], 'must not be empty', '`cella doctor --help`'],
  ])('%j', (words, problem, next) => {
    it('is wrong, and the error says what to do', async () => {
      const { exitCode, err, out } = await cella(...words);
      expect([exitCode, out]).toEqual([2, '']);
      expect(err).toMatch(/^cella: \S/);
      expect(err).toContain(problem);
      expect(err).toContain(next);
    });

    it('is one line of JSON for a program that requested it', async () => {
      const asked = words[0] === '--' ? ['--json', ...words] : [words[0] ?? '', '--json', ...words.slice(1)];
      const { exitCode, err, out } = await cella(...asked);
      expect([exitCode, err]).toEqual([2, '']);
      expect(out.match(/\n/g)).toHaveLength(1);
      const { type, code, message, advice, ...others } = JSON.parse(out);
      expect([type, code, others]).toEqual(['error', 'INVALID_OPTIONS', {}]);
      // A flag that a command does not know is what is wrong there.
      if (!message.includes("'--json'")) expect(`${message}\n${advice}`).toContain(problem);
      expect(advice).not.toBe('');
    });
  });

  it('prints a failure with advice', async () => {
    const { exitCode, err } = await cella('run', '-c', '1');
    expect(exitCode).toBe(1);
    expect(err).toMatch(/^cella: There is no Python\.\nInstall Python/);
  });

  it.each([
    ['SANDBOX_UNAVAILABLE', '--sandbox off'],
    ['PYTHON_NOT_FOUND', '--python'],
    ['WORKSPACE_NOT_WRITABLE', '--cwd'],
    ['KERNEL_OUT_OF_MEMORY', '--memory'],
    ['INVALID_OPTIONS', '--help'],
    ['KEY_BUSY', '--key'],
    ['ENGINE_UNREACHABLE', '--engine'],
    ['CAPABILITY_MISSING', '--executor'],
  ] as const)('gives advice on %s as a command to type: %s', async (code, flag) => {
    const failure = new CellaError(code, 'It cannot be.');
    const { err } = await cellaWith(['run', '-c', '1'], { failure });
    const { out } = await cellaWith(['run', '--json', '-c', '1'], { failure });
    expect(err).toContain(flag);
    expect(JSON.parse(out).advice).toContain(flag);
    expect(`${err}${out}`).not.toMatch(/`(limits|sandbox|cwd|python|queueLimit)|docs\/library/);
  });

  it('names the alternatives as flags if the machine lacks something', async () => {
    const message = 'landlock is missing. Two alternatives: executor: "container" or executor: "in-process".';
    const failure = new CellaError('SANDBOX_UNAVAILABLE', message);
    const { err } = await cellaWith(['run', '-c', '1'], { failure });
    expect(err).toContain('Two alternatives: --executor container or --executor in-process.');
  });

  it.each([
    ['run'],
    ['repl'],
    ['chat'],
    ['fork'],
    ['checkpoints', 'create'],
    ['skills', 'run'],
    ['tools', 'call'],
    ['mcp'],
  ])('lets %s %s choose the executor', async (...words) => {
    const { out } = await cella(...words, '--help');
    for (const flag of ['--executor', '--image', '--engine']) expect(out).toContain(flag);
  });

  it('names flags where the library names options', async () => {
    const problems = 'cwd: /x is not there; dataDir: no; agentKey: no; limits.memoryMb: no; python: no';
    const failure = new CellaError('INVALID_OPTIONS', `Invalid options: ${problems}.`);
    const { err } = await cellaWith(['run', '-c', '1'], { failure });
    expect(err).toContain('--cwd: /x is not there; --data: no; --key: no; --memory: no; --python: no.');
    const one = await cellaWith(['run', '-c', '1'], { failure: new CellaError('INVALID_OPTIONS', 'cwd: no.') });
    expect(one.err).toContain('cella: --cwd: no.\n');
  });

  it.each([
    ['EEXIST', 17, 'it is not a folder'],
    ['EACCES', 13, 'permission denied'],
  ])('explains why the system refuses a folder: %s', async (code, errno, words) => {
    const cause = Object.assign(new Error(`${code}: system talk, mkdir '/x'`), { code, errno: -errno });
    const message = `dataDir: /x cannot be used: ${cause.message}.`;
    const { err } = await cellaWith(['repl'], { failure: new CellaError('INVALID_OPTIONS', message, { cause }) });
    expect(err).toContain(`cella: --data: /x cannot be used: ${words}.\n`);
  });

  it.each([
    ['ENOSPC', 'no space left on device'],
    ['EIO', 'i/o error'],
  ])('explains that its output could not be written: %s', async (code, words) => {
    const errno = -constants.errno[code as 'ENOSPC'];
    const failure = Object.assign(new Error(`${code}: ${words}, write`), { code, errno, syscall: 'write' });
    const { exitCode, err } = await cellaWith(['run', '-c', '1'], { failure });
    expect([exitCode, err]).toEqual([1, `cella: the output could not be written: ${words}.\n`]);
  });

  it('says where an unexpected error came from', async () => {
    const { exitCode, err } = await cellaWith(['run', '-c', '1'], { failure: new TypeError('x is no function') });
    expect(exitCode).toBe(1);
    expect(err).toMatch(/^cella: unexpected error: TypeError: x is no function\n +at /);
  });

  it('keeps its exit code if nobody reads the error', async () => {
    const stderr = new Writable({ write: (_chunk, _encoding, done) => done(new Error('write EPIPE')) });
    expect(await cellaWith(['run', 'missing.py'], { stderr })).toMatchObject({ exitCode: 2 });
  });

  it('prints a failure as the last line of JSON', async () => {
    const { exitCode, out, err } = await cella('run', '--json', '-c', '1');
    expect([exitCode, err]).toEqual([1, '']);
    expect(JSON.parse(out)).toEqual({
      type: 'error',
      code: 'PYTHON_NOT_FOUND',
      message: 'There is no Python.',
      advice: expect.stringContaining('Install Python'),
    });
  });

  it('prints numbers of bench in one format', async () => {
    const { exitCode, out } = await cella('bench', '--json', '--markdown');
    expect([exitCode, JSON.parse(out).message]).toEqual([2, expect.stringContaining('cannot be used with')]);
  });
});
