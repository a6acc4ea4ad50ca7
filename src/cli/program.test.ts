import { EventEmitter } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { runProgram } from './program.ts';
import { Terminal } from './terminal.ts';

async function cella(...words: string[]) {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const refuse = async (): Promise<never> => {
    throw new CellaError('PYTHON_NOT_FOUND', 'There is no Python.');
  };
  const exitCode = await runProgram(words, {
    terminal: new Terminal({ stdin: Readable.from([]), stdout, stderr }),
    signals: new EventEmitter(),
    version: '1.2.3',
    defaults: { agentKey: undefined, dataDir: '/', python: undefined },
    openSession: refuse,
    detect: refuse,
    bench: async (flags) => (flags.quick ? 0 : 1),
  });
  return { exitCode, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') };
}

describe('the command line', () => {
  it('shows its help where nothing is asked', async () => {
    const { exitCode, out } = await cella();
    expect(exitCode).toBe(0);
    for (const word of ['run', 'repl', 'doctor', 'bench', 'Examples:']) expect(out).toContain(word);
  });

  it.each(['run', 'repl', 'doctor', 'bench'])('teaches %s with examples', async (command) => {
    const { exitCode, out } = await cella(command, '--help');
    expect(exitCode).toBe(0);
    expect(out).toContain(`$ cella ${command}`);
  });

  it('tells its version', async () => expect(await cella('--version')).toMatchObject({ exitCode: 0, out: '1.2.3\n' }));

  it.each([
    [['rnu'], 'Did you mean run?', '`cella --help`'],
    [['run', '--tiemout', '3'], 'Did you mean --timeout?', '`cella run --help`'],
    [['run', '--timeout', 'soon', '-c', '1'], 'a number of seconds', '`cella run --help`'],
    [['run', 'a.py', 'b.py'], 'too many arguments', '`cella run --help`'],
    [['run'], 'no program', '`cella run --help`'],
    [['run', '-c', '1', 'a.py'], 'only one program', '`cella run --help`'],
    [['run', '--sandbox', 'maybe'], 'on, off', '`cella run --help`'],
    [['repl', 'a.py'], 'too many arguments', '`cella repl --help`'],
  ])('%j is wrong, and the error says what to do next', async (words, problem, next) => {
    const { exitCode, err, out } = await cella(...words);
    expect(exitCode).toBe(2);
    expect(err).toContain(problem);
    expect(err).toContain(next);
    expect(out).toBe('');
  });

  it('tells a failure with what can be done about it', async () => {
    const { exitCode, err } = await cella('run', '-c', '1');
    expect(exitCode).toBe(1);
    expect(err).toMatch(/^cella: There is no Python\.\nInstall Python/);
  });

  it('tells a failure as the last line of JSON', async () => {
    const { exitCode, out, err } = await cella('run', '--json', '-c', '1');
    expect([exitCode, err]).toEqual([1, '']);
    expect(JSON.parse(out)).toEqual({
      type: 'error',
      code: 'PYTHON_NOT_FOUND',
      message: 'There is no Python.',
      advice: expect.stringContaining('Install Python'),
    });
  });

  it('hands the flags of bench on', async () => expect(await cella('bench', '--quick')).toMatchObject({ exitCode: 0 }));
});
