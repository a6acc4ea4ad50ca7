/** `cella run` and `cella repl` as a shell sees them: output, exit codes, signals, stdin. */

import { once } from 'node:events';
import { mkdirSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Cella } from '../support/cli/command.ts';

const cella = new Cella();
afterAll(() => cella[Symbol.dispose]());

const run = (code: string, ...flags: string[]) => cella.run(['run', ...flags, '-c', code]);

describe('exit codes of cella run', () => {
  it('0 with the output and the last value', async () => {
    expect(await run('print("hello")\n6 * 7')).toEqual({ code: 0, out: 'hello\n42\n', err: '' });
    expect(readdirSync(cella.temporary)).toEqual([]);
  });

  it('0 without a value', async () => expect(await run('x = 1')).toEqual({ code: 0, out: '', err: '' }));

  it('1 for an exception, with its traceback on stderr', async () => {
    const { code, out, err } = await run('print("before")\n1 / 0');
    expect([code, out]).toEqual([1, 'before\n']);
    expect(err).toMatch(/^Traceback[\s\S]*1 \/ 0[\s\S]*ZeroDivisionError: division by zero\n$/);
  });

  it.each([
    ['sys.exit()', 0, ''],
    ['sys.exit(7)', 7, ''],
    ['sys.exit(-1)', 255, ''],
    ['sys.exit("no luck")', 1, 'no luck\n'],
  ])('%s is %i', async (call, exitCode, message) => {
    expect(await run(`import sys; ${call}`)).toEqual({ code: exitCode, out: '', err: message });
  });

  it('2 for a missing file or a wrong option', async () => {
    expect(await cella.run(['run', 'missing.py'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('missing.py'),
    });
    expect(await run('1', '--timeout', '0')).toMatchObject({ code: 2, err: expect.stringContaining('above 0') });
  });

  it.each([
    ['/nowhere', 'there is no folder /nowhere.'],
    ['/etc/passwd/deeper', 'there is no folder /etc/passwd/deeper.'],
    ['/etc/passwd', '/etc/passwd is not a folder.'],
  ])('2 for --cwd %s, with the reason in words', async (folder, reason) => {
    const { code, err } = await run('1', '--cwd', folder);
    expect([code, err]).toEqual([2, expect.stringContaining(`cella: --cwd: ${reason}\n`)]);
  });

  it('2 for a data folder that is a file, with the reason in words', async () => {
    const { code, err } = await run('1', '--data', '/etc/passwd');
    expect([code, err]).toEqual([2, expect.stringContaining('--data: /etc/passwd is not a folder.')]);
  });

  it('124 for a timeout, with what was printed before', async () => {
    const { code, out, err } = await run('print("on", flush=True)\nwhile True: pass', '--timeout', '0.5');
    expect([code, out]).toEqual([124, 'on\n']);
    expect(err).toContain('time limit');
  });

  it('137 for a killed kernel, with the reason', async () => {
    const { code, err } = await run('import os; os.kill(os.getpid(), 9)');
    expect(code).toBe(137);
    expect(err).toContain('SIGKILL');
  });

  it('1 for a missing Python, with advice', async () => {
    const { code, err } = await run('1', '--python', '/nowhere/python');
    expect(code).toBe(1);
    expect(err).toMatch(/\/nowhere\/python[\s\S]*CELLA_PYTHON/);
  });
});

describe('signals', () => {
  const endless = 'print("ready", flush=True)\nwhile True: pass';
  const stubborn = `
import time
word = "ready"
while True:
    try:
        print(word, flush=True)
        while True: time.sleep(60)
    except KeyboardInterrupt:
        word = "again"`;

  it('one Ctrl-C interrupts the code: 130 and a traceback', async () => {
    const started = cella.start(['run', '-c', endless]);
    await started.says('ready');
    started.child.kill('SIGINT');
    expect(await started.ended).toBe(130);
    expect(started.err).toContain('KeyboardInterrupt');
  });

  it('a second Ctrl-C ends code that ignores the first', async () => {
    const started = cella.start(['run', '-c', stubborn]);
    await started.says('ready');
    started.child.kill('SIGINT');
    await started.says('again');
    started.child.kill('SIGINT');
    expect(await started.ended).toBe(130);
    expect(started.err).toBe('');
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('%s closes the session and ends with %i', async (signal, exitCode) => {
    const started = cella.start(['run', '-c', endless]);
    await started.says('ready');
    started.child.kill(signal);
    expect(await started.ended).toBe(exitCode);
    expect(readdirSync(cella.temporary)).toEqual([]);
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('%s ends it with %i even if nobody reads its output', async (signal, exitCode) => {
    const started = cella.start(['run', '-c', 'while True: print("y" * 1_000_000)']);
    await started.says('y');
    started.child.stdout?.pause();
    const ended = once(started.child, 'exit');
    started.child.kill(signal);
    expect(await ended).toEqual([exitCode, null]);
    started.child.stdout?.destroy();
  });

  it('a reader that disconnects ends it quietly with 141', async () => {
    const started = cella.start(['run', '-c', 'while True: print("y")']);
    await started.says('y');
    started.child.stdout?.destroy();
    expect(await started.ended).toBe(141);
    expect(started.err).toBe('');
  });
});

describe('stdin', () => {
  const ask = 'print([input("a? "), input("b? ")])\ninput()';

  it('answers each input() with a line, and then raises EOFError', async () => {
    const { code, out, err } = await cella.run(['run', '-c', ask], { input: 'one\ntwo\n' });
    expect([code, out]).toEqual([1, "['one', 'two']\n"]);
    expect(err).toMatch(/^a\? b\? [\s\S]*EOFError/);
  });

  it('is the program with -, and input() gets nothing of it', async () => {
    const { code, out, err } = await cella.run(['run', '-'], { input: 'print("é")\ninput()\n' });
    expect([code, out]).toEqual([1, 'é\n']);
    expect(err).toContain('EOFError');
  });

  it('gives an answer no more time than --timeout', async () => {
    const started = cella.start(['run', '--timeout', '0.3', '-c', 'input("name? ")']);
    expect(await started.ended).toBe(1);
    expect(started.err).toContain('EOFError: nobody answered within 0.3 s');
  });

  it('is not read by code that does not ask', async () => {
    const started = cella.start(['run', '-c', '1 + 1']);
    expect(await started.ended).toBe(0);
    expect(started.out).toBe('2\n');
  });
});

describe('cella run', () => {
  it('runs a file', async () => {
    const file = join(cella.dataDir, 'program.py');
    writeFileSync(file, 'def double(n):\n    return 2 * n\n\ndouble(21)\n');
    expect(await cella.run(['run', file])).toEqual({ code: 0, out: '42\n', err: '' });
  });

  it('works in the given folder', async () => {
    const folder = join(cella.dataDir, '..', `${cella.dataDir.split('/').pop()}-work`);
    mkdirSync(folder);
    try {
      const told = { code: 0, out: `${realpathSync(folder)}\n`, err: '' };
      expect(await run('import os; print(os.getcwd())', '--cwd', folder)).toEqual(told);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('prints one event per line with --json, the result last', async () => {
    const words = ['run', '--key', 'json', '--json', '-c', 'print(input("n? "))\n2 ** 64'];
    const { code, out } = await cella.run(words, { input: 'Ada\n' });
    const events = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(code).toBe(0);
    expect(events).toEqual([
      { type: 'input_request', id: expect.any(Number), prompt: 'n? ', password: false },
      { type: 'stdout', text: 'Ada\n' },
      expect.objectContaining({ type: 'result', status: 'ok', execution: 1, repr: '18446744073709551616' }),
    ]);
  });

  /** It goes into the result, whatever comes after. */
  const SAY = 'import os, sys, time; print("err", file=sys.stderr, flush=True); print("ready", flush=True); ';
  const failure = (name: string, message: string, traceback: string) => ({
    error: {
      name,
      message: expect.stringContaining(message),
      traceback: expect.stringMatching(traceback),
    },
  });
  it.each<[status: string, code: string, exitCode: number, more: object]>([
    ['ok', '6 * 7', 0, { value: 42, repr: '42' }],
    ['error', '1 / 0', 1, failure('ZeroDivisionError', 'division by zero', '^Traceback[^]*1 / 0[^]*by zero')],
    ['timeout', 'time.sleep(600)', 124, failure('TimeoutError', 'ran longer than 2 s', '^Traceback[^]*sleep')],
    ['interrupted', 'time.sleep(600)', 130, failure('KeyboardInterrupt', '', '^Traceback[^]*sleep[^]*Interrupt')],
    ['died', 'os.kill(os.getpid(), 9)', 137, failure('KERNEL_DIED', 'SIGKILL', '^$')],
  ])(
    'tells with --json that the code is %s, in its last line and by its exit code',
    async (status, code, exitCode, more) => {
      const flags = status === 'timeout' ? ['--timeout', '2'] : [];
      const started = cella.start(['run', '--json', ...flags, '-c', SAY + code]);
      await started.says('ready');
      if (status === 'interrupted') started.child.kill('SIGINT');
      expect(await started.ended).toBe(exitCode);
      expect(started.err).toBe('');
      const last = JSON.parse(started.out.trimEnd().split('\n').at(-1) ?? '');
      expect(last).toMatchObject({ type: 'result', status, stdout: 'ready\n', stderr: 'err\n', ...more });
      expect(last.durationMs).toBeGreaterThan(0);
      expect(last.error === undefined).toBe(status === 'ok');
    },
  );

  it('reports a failure as JSON with --json', async () => {
    const { code, out, err } = await run('1', '--json', '--python', '/nowhere/python');
    expect([code, err]).toEqual([1, '']);
    const event = { type: 'error', code: 'PYTHON_NOT_FOUND', message: expect.any(String), advice: expect.any(String) };
    expect(JSON.parse(out)).toEqual(event);
  });

  it('reports a wrong command line as JSON with --json', async () => {
    const { code, out, err } = await cella.run(['run', '--tiemout', '3', '--json', '-c', '1']);
    expect([code, err]).toEqual([2, '']);
    const message = expect.stringContaining('Did you mean --timeout?');
    expect(JSON.parse(out)).toEqual({ type: 'error', code: 'INVALID_OPTIONS', message, advice: expect.any(String) });
  });

  it('streams all output to a slow reader', async () => {
    const { code, out } = await run('for i in range(200_000): print(i)');
    expect(code).toBe(0);
    expect(out.length).toBe(1_288_890);
    expect(out.endsWith('199999\n')).toBe(true);
  });
});

describe('cella repl from a pipe', () => {
  const repl = (input: string, ...flags: string[]) => cella.run(['repl', ...flags], { input });

  it('keeps definitions, without prompts', async () => {
    expect(await repl('x = 41\nx + 1\n')).toEqual({ code: 0, out: '42\n', err: '' });
  });

  it('joins the lines of a block', async () => {
    const { code, out } = await repl('def f():\n    return 3\n\nf()\nfor i in range(2):\n    print(i)\n');
    expect([code, out]).toEqual([0, '3\n0\n1\n']);
  });

  it('continues after an error; its exit code is that of the last cell', async () => {
    expect(await repl('1 / 0\n2\n')).toMatchObject({
      code: 0,
      out: '2\n',
      err: expect.stringContaining('ZeroDivision'),
    });
    expect(await repl('2\n1 / 0\n')).toMatchObject({ code: 1, out: '2\n' });
  });

  it('continues in a fresh kernel after a death, and says what was restored', async () => {
    const { code, out, err } = await repl('x = 1\nimport os; os._exit(3)\n"x" in globals()\n', '--key', 'dying');
    expect([code, out]).toEqual([0, 'False\n']);
    expect(err).toContain('exit code 3');
    expect(err).toContain('this is a new kernel: its variables are gone.');
  });

  it('begins with the variables of the last time', async () => {
    await repl('kept = 41\n', '--key', 'kept');
    expect(await repl('kept + 1\n', '--key', 'kept')).toEqual({ code: 0, out: '42\n', err: '' });
  });

  it('answers input() with the next line, and exits with exit()', async () => {
    expect(await repl('n = input()\nAda\nn\nexit(4)\n')).toEqual({ code: 4, out: "'Ada'\n", err: '' });
  });

  it.each(['exit', 'quit', 'exit()', ' quit( ) ', 'import sys; sys.exit(0)', 'raise SystemExit'])(
    'leaves with %s',
    async (word) => {
      expect(await repl(`1\n${word}\n2\n`)).toEqual({ code: 0, out: '1\n', err: '' });
    },
  );
});

it('cella doctor prints its result and exits with its code', async () => {
  const { code, out } = await cella.run(['doctor', '--json']);
  const { ok, layers, executors } = JSON.parse(out);
  expect(code).toBe(ok ? 0 : 1);
  const names = ['subprocess', 'container', 'in-process'];
  expect(executors.map(({ name }: { name: string }) => name)).toEqual(names);
  expect(layers.map(({ name }: { name: string }) => name)).toContain('seccomp');
});

it('cella doctor warns about the rights of members on a root server', async () => {
  const { out } = await cella.run(['doctor', '--json'], { env: { CELLA_MEMBERS_MAY: 'folders,network' } });
  const warnings = [expect.stringContaining('--members-may folders')];
  expect(JSON.parse(out)).toMatchObject({ root: true, warnings });
});
