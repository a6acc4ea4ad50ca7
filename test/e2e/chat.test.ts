/** `cella chat` through pipes: every command, what is wrong with a line, and what is left when it ends. */

import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../support/attack.ts';
import { type HereOptions, runHere } from '../support/cli-here.ts';
import { descendants, type Process, processes } from '../support/processes.ts';
import { Cella, type Started, type StartOptions } from './command.ts';

/** Each test has a data folder of its own. */
let cella: Cella;
beforeEach(() => {
  cella = new Cella();
});
afterEach(() => cella[Symbol.dispose]());

const GONE_MS = 30_000;

const inputOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('');
/** In a process of its own. */
const send = (lines: readonly string[], flags: readonly string[] = [], options: StartOptions = {}) =>
  cella.run(['chat', ...flags], { input: inputOf(lines), ...options });

/** Chats in this process, which leave nothing in it to each other. */
const place = new Cella();
afterAll(() => place[Symbol.dispose]());
const sendHere = (lines: readonly string[], flags: readonly string[] = [], options: HereOptions = {}) =>
  runHere(['chat', ...flags], place.dataDir, { input: inputOf(lines), ...options });
const chat = (...lines: string[]) => sendHere(lines, ['--auto-sh']);

/** A chat that goes on; `says` waits for what its lines print. */
async function open(...flags: string[]): Promise<Started> {
  const started = cella.start(['chat', ...flags]);
  started.type('/py print("ready")\n');
  await started.says('ready');
  return started;
}

async function leave(started: Started): Promise<number | string> {
  started.child.stdin?.end();
  return await started.ended;
}

/** What descends from a process, once so many of them sleep: a shell tells of a child before that runs its program. */
async function untilAsleep(pid: number, count: number): Promise<Process[]> {
  const asleep = (all: Process[]) => all.filter(({ command }) => command === 'sleep 3600').length === count;
  return await eventually(() => descendants(pid), asleep, GONE_MS);
}

/** Of these processes, those that still run the same. */
const left = (before: readonly Process[]): Process[] =>
  processes().filter((one) => before.some(({ pid, command }) => pid === one.pid && command === one.command));

const agents = (): string[] => {
  const keys = readdirSync(join(cella.dataDir, 'agents'));
  return keys.filter((name) => name.startsWith('chat-'));
};

describe('a chat', () => {
  it('keeps what one line defines for the next', async () => {
    expect(await send(['/py x=123', '/py print(x)'])).toEqual({ code: 0, out: '123\n', err: '' });
  });

  it('has names of its own, also while another one is open', async () => {
    const first = await open();
    first.type('/py x = "first"\n');
    expect(await send(['/py "x" in globals()'])).toEqual({ code: 0, out: 'False\n', err: '' });
    first.type('/py x\n');
    await first.says("'first'");
    expect(await leave(first)).toBe(0);
    expect(await send(['/py "x" in globals()'])).toEqual({ code: 0, out: 'False\n', err: '' });
  });

  it('resets no other', async () => {
    const [one, other] = [await open(), await open()];
    for (const each of [one, other]) each.type('/py x = 123\n/py print("x is", x)\n');
    await Promise.all([one.says('x is 123'), other.says('x is 123')]);
    one.type('/py reset\n/py "x" in globals()\n');
    await one.says('False');
    other.type('/py print("still", x)\n');
    await other.says('still 123');
    expect(await Promise.all([leave(one), leave(other)])).toEqual([0, 0]);
  });

  it('leaves no process and no file behind', async () => {
    const started = await open('--auto-sh');
    started.type('/py import subprocess; p = subprocess.Popen(["sleep", "3600"])\n');
    started.type('/sh sleep 3600 & echo both\n');
    await started.says('both');
    const before = await untilAsleep(started.child.pid ?? 0, 2);
    started.type('/quit\n');
    expect(await started.ended).toBe(0);
    expect(left(before)).toEqual([]);
    expect(readdirSync(cella.temporary)).toEqual([]);
    expect(agents()).toEqual([]);
    expect(JSON.parse((await cella.run(['ps', '--json'])).out).agents).toEqual([]);
  });

  it.each(['SIGTERM', 'SIGHUP'] as const)('leaves nothing behind when it is ended by %s', async (signal) => {
    const started = await open();
    const before = descendants(started.child.pid ?? 0);
    started.type('/py while True: pass\n');
    started.child.kill(signal);
    expect(await started.ended).toBe(signal === 'SIGTERM' ? 143 : 129);
    expect(left(before)).toEqual([]);
    expect([agents(), readdirSync(cella.temporary)]).toEqual([[], []]);
  });

  it('leaves no process behind when it is killed, in the middle of a cell too', async () => {
    const started = await open('--auto-sh');
    started.type('/sh sleep 3600 & echo asleep\n');
    await started.says('asleep');
    started.type('/py print("busy", flush=True)\n/py while True: pass\n');
    await started.says('busy');
    const before = await untilAsleep(started.child.pid ?? 0, 1);
    expect(before.length).toBeGreaterThan(2);
    started.child.kill('SIGKILL');
    expect(await started.ended).toBe('SIGKILL');
    expect(
      await eventually(
        () => left(before),
        (seen) => seen.length === 0,
        GONE_MS,
      ),
    ).toEqual([]);
  });

  it('goes on with an agent that has a name, and keeps it', async () => {
    const flags = ['--agent', `ada ${randomUUID()}`];
    expect(await send(['/py x = 123'], flags)).toEqual({ code: 0, out: '', err: '' });
    expect(await send(['/py print(x)'], flags)).toEqual({ code: 0, out: '123\n', err: '' });
    expect(await cella.run(['run', ...flags, '-c', 'x'])).toEqual({ code: 0, out: '123\n', err: '' });
  });

  it('tells which process holds the agent', async () => {
    const agent = `held ${randomUUID()}`;
    const holder = await open('--agent', agent);
    const { code, err } = await send(['/py 1'], ['--agent', agent]);
    expect([code, err]).toEqual([1, expect.stringContaining(String(holder.child.pid))]);
    await leave(holder);
  });
});

describe('/py', () => {
  it('shows the last value, output and errors', async () => {
    const { code, out, err } = await chat(
      '/py print("out"); 6 * 7',
      '/py import sys; print("err", file=sys.stderr)',
      '/py 1 / 0',
    );
    expect([code, out]).toEqual([1, 'out\n42\n']);
    expect(err).toMatch(/^err\nTraceback[\s\S]*ZeroDivisionError/);
  });

  it('takes several lines, up to an empty one', async () => {
    const block = ['/py', 'def double(n):', '    return 2 * n', 'y = double(4)', '', '/py y'];
    expect(await chat(...block)).toEqual({ code: 0, out: '8\n', err: '' });
    expect(await chat('/py def one():', '    return 1', '', '/py one()')).toEqual({ code: 0, out: '1\n', err: '' });
  });

  it('takes an empty line inside of quotes or brackets as theirs', async () => {
    expect(await chat('/py', 's = """a', '', 'b"""', '', '/py s')).toMatchObject({ out: "'a\\n\\nb'\n" });
    expect(await chat('/py sum([1,', '', '2])')).toMatchObject({ out: '3\n' });
  });

  it('is nothing where nothing follows', async () => {
    expect(await chat('/py', '', '/py 1')).toEqual({ code: 0, out: '1\n', err: '' });
    expect(await chat('/py')).toEqual({ code: 0, out: '', err: '' });
  });

  it('reset clears every name and keeps files', async () => {
    const { out } = await chat(
      '/py x = open("f.txt", "w").write("kept")',
      '/py reset',
      '/py "x" in globals(), open("f.txt").read()',
    );
    expect(out).toBe("(False, 'kept')\n");
  });

  it('goes on after sys.exit, and after a death', async () => {
    const { code, out, err } = await chat(
      '/py import sys; sys.exit(3)',
      '/py 1',
      '/py import os; os._exit(4)',
      '/py 2',
    );
    expect([code, out]).toEqual([0, '1\n2\n']);
    expect(err).toMatch(/asked to exit with 3[\s\S]*exit code 4[\s\S]*a fresh kernel/);
  });

  it('takes the answers to input() from the next lines', async () => {
    expect(await chat('/py name = input("who? ")', 'Ada', '/py name')).toMatchObject({ code: 0, out: "'Ada'\n" });
  });

  it.each([
    ['an unclosed quote', '/py print("a', 'SyntaxError: unterminated string literal'],
    ['an unclosed bracket', '/py print((1', "SyntaxError: '(' was never closed"],
    ['a null byte', '/py x = "\0"', 'null bytes'],
  ])('tells what is wrong with %s', async (_what, line, reason) => {
    const { code, err } = await chat(line);
    expect([code, err]).toEqual([1, expect.stringContaining(reason)]);
  });

  it('takes lines of any length, in any script', async () => {
    const long = 'é'.repeat(500_000);
    expect(await chat(`/py len("${long}")`, '/py 名 = "日本 🎉"', '/py print(名)')).toEqual({
      code: 0,
      out: '500000\n日本 🎉\n',
      err: '',
    });
  });
});

describe('/sh', () => {
  it('runs in the sandbox and the folder of the code, and its output comes as it is', async () => {
    const { code, out, err } = await chat(
      '/py open("f.txt", "w").write("from Python")',
      '/sh cat f.txt; echo; echo oops >&2; ls /etc/shadow',
    );
    expect([code, out]).toEqual([1, '11\nfrom Python\n']);
    expect(err).toMatch(/^oops\nls: .*\/etc\/shadow.*\n\[exit code 2\]\n$/);
  });

  it('stays where it goes, and Python with it', async () => {
    const lines = [
      '/sh mkdir -p "a b" && cd "a b"',
      '/sh pwd',
      '/py import os; print(os.getcwd())',
      '/cwd',
      '/sh cd ..; exit 0',
      '/cwd',
    ];
    const folder = '/agent/workspace/a b\n';
    expect(await chat(...lines)).toEqual({ code: 0, out: `${folder.repeat(3)}/agent/workspace\n`, err: '' });
  });

  it('goes where Python goes', async () => {
    expect(await chat('/py import os; os.chdir("/tmp")', '/sh pwd')).toMatchObject({ out: '/tmp\n' });
  });

  it('changes no name, not even the last value', async () => {
    const lines = [
      '/py x = 5',
      '/py 41',
      '/sh x=6; command=7; os=8',
      '/py sorted(n for n in globals() if n[0] != "_"), x, _',
    ];
    expect((await chat(...lines)).out).toBe("41\n(['x'], 5, 41)\n");
  });

  it('works where the code has taken the names that it needs', async () => {
    expect(await chat('/py exec = open = os = print = None', '/sh echo works')).toMatchObject({ out: 'works\n' });
  });

  it('takes quotes, newlines and any script as they are', async () => {
    expect((await chat(`/sh echo "it's" 'a "b"' \\$HOME $((1 + 1)) 日本🎉`)).out).toBe('it\'s a "b" $HOME 2 日本🎉\n');
    const block = ['/sh', 'for word in one "two', 'three"; do', '  echo "[$word]"', 'done', ''];
    expect((await chat(...block)).out).toBe('[one]\n[two\nthree]\n');
    expect((await chat('/sh', "cat <<'END'", '$x `y` "z"', 'END', '')).out).toBe('$x `y` "z"\n');
  });

  it.each([
    ['its exit code', '/sh exit 7', '[exit code 7]'],
    ['its signal', '/sh kill -9 $$', '[ended by SIGKILL]'],
    ['that there is no such program', '/sh no-such-program', '[exit code 127]'],
    ['an unclosed quote', '/sh echo "unclosed', 'Unterminated quoted string'],
    ['a command that is too long', `/sh ${'x'.repeat(200_000)}`, 'This command has 200000 bytes'],
    ['a null byte', '/sh a\0b', 'null byte'],
  ])('tells %s, and the chat goes on', async (_what, line, reason) => {
    const { code, out, err } = await chat(line, '/py "on"', line);
    expect([code, out]).toEqual([1, "'on'\n"]);
    expect(err).toContain(reason);
  });

  it('streams', async () => {
    const started = await open('--auto-sh');
    started.type('/sh echo first; while [ ! -e go ]; do :; done; echo second\n');
    await started.says('first');
    expect(started.out).not.toContain('second');
    started.child.kill('SIGINT');
    started.type('/py "on"\n');
    await started.says('on');
    expect(started.err).toContain('[ended by SIGINT]');
    expect(await leave(started)).toBe(0);
  });

  it('does not wait for what it starts in the background', async () => {
    const { code, out } = await chat('/sh sleep 3600 & echo started', '/sh cd /tmp; sleep 3600 &', '/cwd');
    expect([code, out]).toEqual([0, 'started\n/tmp\n']);
  });

  it('reads nothing of the chat', async () => {
    expect(await chat('/sh cat; echo end', '/py 1')).toMatchObject({ out: 'end\n1\n' });
  });

  it('is refused where nobody can confirm it', async () => {
    const { code, out, err } = await sendHere(['/sh echo ran', '/py 1', '/sh echo ran']);
    expect([code, out]).toEqual([1, '1\n']);
    expect(err).toMatch(/must be confirmed.*no terminal[\s\S]*--auto-sh[\s\S]*CELLA_AUTO_SH=1/);
  });

  it('asks nobody with CELLA_AUTO_SH=1', async () => {
    const allowed = await sendHere(['/sh echo ran'], [], { env: { CELLA_AUTO_SH: '1' } });
    expect(allowed).toEqual({ code: 0, out: 'ran\n', err: '' });
    expect((await sendHere(['/sh echo ran'], [], { env: { CELLA_AUTO_SH: '0' } })).code).toBe(1);
  });
});

describe('/undo', () => {
  it('goes back cell by cell, and says what it did', async () => {
    const { code, out, err } = await chat(
      '/py x = [1]',
      '/py x.append(2)',
      '/py y = 3',
      '/undo',
      '/undo',
      '/py x, "y" in globals()',
    );
    expect([code, out]).toEqual([0, '([1], False)\n']);
    expect(err).toMatch(/^Undone: y = 3\ny is gone\..*\nUndone: x\.append\(2\)\nx: \[1, 2\] → \[1\]\..*\n$/);
  });

  it('takes back where a shell command went, and does not count /cwd', async () => {
    const { out, err } = await chat(
      '/py x = 1',
      '/sh cd /tmp',
      '/cwd',
      '/cwd',
      '/undo',
      '/cwd',
      '/undo',
      '/py "x" in globals()',
    );
    expect(out).toBe('/tmp\n/tmp\n/agent/workspace\nFalse\n');
    expect(err).toMatch(/Undone: \/sh cd \/tmp\n[\s\S]*Undone: x = 1\n/);
  });

  it('says when there is nothing left', async () => {
    const { code, out, err } = await chat('/py x = 1', '/undo', '/undo', '/py "on"', '/undo', '/undo', '/undo');
    expect([code, out]).toEqual([1, "'on'\n"]);
    expect(err.match(/nothing left to undo: a chat can take back its last 5 cells/g)).toHaveLength(3);
    expect(err).toContain('/checkpoint NAME');
  });

  it('goes back to before a cell that has killed its kernel', async () => {
    const lines = ['/py x = 1', '/py x = 2; import os; os._exit(1)', '/undo', '/py x'];
    const { code, out, err } = await chat(...lines);
    expect([code, out]).toEqual([0, '1\n']);
    expect(err).toContain('Undone: x = 2; import os; os._exit(1)\n');
  });

  it('reaches five cells', async () => {
    const cells = Array.from({ length: 7 }, (_, index) => `/py x = ${index}`);
    const { code, out } = await chat(...cells, ...Array(5).fill('/undo'), '/py x', '/undo');
    expect([code, out]).toEqual([0, '1\n']);
  });
});

describe('/checkpoint and /restore', () => {
  it('go back to a moment, as often as one likes', async () => {
    const lines = [
      '/py x = [1]',
      '/checkpoint clean start',
      '/py x.append(2); y = 3',
      '/restore clean start',
      '/py x, "y" in globals()',
    ];
    const { code, out, err } = await chat(...lines, '/py x.append(4)', '/restore clean start', '/py x');
    expect([code, out]).toEqual([0, '([1], False)\n[1]\n']);
    expect(err).toMatch(
      /Checkpoint "clean start": .*as long as this kernel lives\.\n[\s\S]*Back at "clean start".*y is gone/,
    );
  });

  it('write to the data folder with --durable, and outlive a death and the chat', async () => {
    const flags = ['--agent', `durable ${randomUUID()}`];
    const lines = ['/py x = 1; import socket; s = socket.socket()', '/checkpoint --durable kept', '/py x = 2'];
    const { err } = await send([...lines, '/py import os; os._exit(1)', '/restore kept', '/py x'], flags);
    expect(err).toMatch(/Checkpoint "kept" \(2 names, .*\): .*in any process\.\n[\s\S]*s is not in it: /);
    await send(['/py x = 3'], flags);
    expect(await send(['/restore kept', '/py x'], flags)).toMatchObject({ code: 0, out: '1\n' });
  });

  it('list them', async () => {
    expect((await chat('/checkpoints')).err).toContain('There are no checkpoints');
    const { out } = await chat('/checkpoint a', '/checkpoint --durable b', '/checkpoints');
    expect(out).toMatch(/^NAME +KIND +MADE\na +live .*\nb +durable .*\n$/);
  });

  it('need a name, and one that there is', async () => {
    const { code, err } = await chat(
      '/checkpoint',
      '/checkpoint --durable',
      '/restore',
      '/restore nothing',
      `/checkpoint ${'x'.repeat(201)}`,
    );
    expect(code).toBe(1);
    expect(err.match(/A checkpoint needs a name/g)).toHaveLength(2);
    expect(err).toMatch(/Type \/restore NAME[\s\S]*There is no checkpoint "nothing"[\s\S]*1 to 200 characters/);
  });
});

describe('/fork', () => {
  it('makes another agent with the same names, in the same folder', async () => {
    const [from, to] = [`from ${randomUUID()}`, `to ${randomUUID()}`];
    const { code, err } = await sendHere(
      ['/py x = [1]; open("f.txt", "w").write("shared")', `/fork ${to}`, '/py x.append(2)'],
      ['--agent', from],
    );
    expect([code, err]).toEqual([0, expect.stringContaining(`cella chat --agent '${to}'`)]);
    expect((await sendHere(['/py x, open("f.txt").read()'], ['--agent', to])).out).toBe("([1], 'shared')\n");
    expect((await sendHere(['/py x'], ['--agent', from])).out).toBe('[1, 2]\n');
  });

  it('keeps the agent of a chat without a name, since its folder is shared', async () => {
    const to = `to ${randomUUID()}`;
    const { err } = await chat('/py open("f.txt", "w").write("kept")', `/fork ${to}`);
    expect(err).toMatch(/"chat-\w+" stays too/);
    expect((await sendHere(['/py open("f.txt").read()'], ['--agent', to])).out).toBe("'kept'\n");
  });

  it('needs a key that nobody has', async () => {
    const agent = `mine ${randomUUID()}`;
    await sendHere(['/py 1'], ['--agent', agent]);
    const { code, err } = await chat('/fork', `/fork ${agent}`);
    expect([code, err]).toEqual([1, expect.stringMatching(/Type \/fork KEY[\s\S]*There is an agent .* already/)]);
    expect((await sendHere(['/fork other one', '/fork other one'], ['--agent', agent])).err).toMatch(/already/);
  });
});

describe('/vars, /history, /cwd, /help, /quit', () => {
  it('list names, with nothing that a terminal would obey', async () => {
    const { out } = await chat(
      '/py x, 名 = [1, 2, 3], "日本"',
      '/py class E:\n',
      '    def __repr__(self): return "\\x1b[31m"',
      '',
      '/py e = E()',
      '/vars',
    );
    expect(out).toMatch(/^NAME +TYPE +LENGTH +SIZE +VALUE\n/);
    expect(out).toMatch(/\nx +list +3 .* \[1, 2, 3\]\n名 +str +2 .* '日本'\n/);
    expect(out).toMatch(/\ne .*\\u\{1b\}\[31m\n/);
    expect((await chat('/vars')).err).toContain('There are no names yet');
  });

  it('show the last cells, as they were typed', async () => {
    const { out } = await chat(
      '/py x = 1',
      '/sh echo "a  b"',
      '/cwd',
      '/py 1 / 0',
      '/py',
      'if x:',
      '    x = 2',
      '',
      '/history',
      '/history 1',
    );
    const all = '1   x = 1\n2   /sh echo "a  b"\n4 ! 1 / 0\n5   if x:\n        x = 2\n';
    expect(out).toBe(`a  b\n/agent/workspace\n${all}(3 before these: /history 4)\n5   if x:\n        x = 2\n`);
    expect((await chat('/history', '/history x')).err).toMatch(/Nothing has run yet[\s\S]*is no number/);
  });

  it('tell all commands, and more about one', async () => {
    const { out } = await chat('/help', '/help sh', '/help /undo');
    for (const name of ['py', 'sh', 'cwd', 'vars', 'undo', 'checkpoint', 'restore', 'fork', 'history', 'quit']) {
      expect(out).toContain(`\n/${name}`.slice(name === 'py' ? 1 : 0));
    }
    expect(out).toMatch(/shown and confirmed first[\s\S]*A \/sh is a cell too/);
    expect((await chat('/help nothing')).err).toContain('There is no command /nothing');
  });

  it.each(['/quit', '/exit', '  /quit  '])('leave with %j', async (word) => {
    expect(await chat('/py 1', word, '/py 2')).toEqual({ code: 0, out: '1\n', err: '' });
  });

  it('take no argument where they have none', async () => {
    const { code, err } = await chat('/vars x', '/cwd x', '/undo 2', '/checkpoints x', '/quit now');
    expect([code, err.match(/takes no argument/g)]).toEqual([1, Array(5).fill('takes no argument')]);
  });
});

describe('other lines', () => {
  it.each([
    ['/foo', '/foo', 'There is no command /foo.\n/help lists them all.'],
    ['/chekpoint a', '/chekpoint a', 'Did you mean /checkpoint?'],
    ['/PY 1', '/PY 1', 'There is no command /PY.\nDid you mean /py?'],
    ['/', '/', 'There is no command /.'],
    ['/usr/bin/ls', '/usr/bin/ls', 'There is no command /usr/bin/ls.'],
    ['/日本', '/日本', 'There is no command /日本.'],
    ['a very long word', `/${'x'.repeat(100_000)}`, `There is no command /${'x'.repeat(39)}….`],
  ])('%s is no command', async (_what, line, reason) => {
    const { code, out, err } = await chat(line, '/py 1', line);
    expect([code, out]).toEqual([1, '1\n']);
    expect(err).toContain(reason);
  });

  it('have nobody to answer them yet, and say how to run Python', async () => {
    const { code, out, err } = await chat('hello', '', '   ', '/py 1', 'x = 1');
    expect([code, out]).toEqual([1, '1\n']);
    expect(err.match(/No coding agent takes part in this chat yet.\n.*\/py CODE/g)).toHaveLength(2);
  });

  it('are Python with --auto-py, commands besides', async () => {
    const lines = [
      'x = 20',
      'def f(n):',
      '    return n + 1',
      '',
      'f(x)',
      '/undo',
      '/py x + 2',
      'exit',
      'print("never")',
    ];
    expect(await sendHere(lines, ['--auto-py'])).toMatchObject({ code: 0, out: '21\n22\n' });
  });
});

describe('--json', () => {
  it('prints events and answers, one a line', async () => {
    const lines = [
      '/py x = 1',
      '/py print("out"); x',
      '/vars',
      '/undo',
      '/checkpoint a',
      '/foo',
      '/sh exit 3',
      '/history',
    ];
    const { code, out, err } = await send(lines, ['--auto-sh', '--json']);
    expect([code, err]).toEqual([0, '']);
    const events = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events).toEqual([
      {
        type: 'reply',
        command: 'chat',
        agent: expect.stringMatching(/^chat-[0-9a-f]{8}$/),
        kept: false,
        executor: 'subprocess',
        capabilities: expect.objectContaining({ trueRollback: true, liveFork: true }),
      },
      expect.objectContaining({ type: 'result', status: 'ok', execution: 1 }),
      { type: 'stdout', text: 'out\n' },
      expect.objectContaining({ type: 'result', status: 'ok', value: 1 }),
      { type: 'reply', command: 'vars', variables: [expect.objectContaining({ name: 'x', preview: '1' })] },
      { type: 'reply', command: 'undo', line: 'print("out"); x', changes: [] },
      { type: 'reply', command: 'checkpoint', checkpoint: expect.objectContaining({ name: 'a', kind: 'live' }) },
      { type: 'error', code: 'INVALID_OPTIONS', message: expect.stringContaining('/foo'), advice: expect.any(String) },
      expect.objectContaining({ type: 'result', status: 'error', error: expect.objectContaining({ exitCode: 3 }) }),
      { type: 'reply', command: 'sh', exitCode: 3 },
      { type: 'reply', command: 'history', entries: expect.any(Array) },
    ]);
    expect(events.at(-1).entries.map(({ line }: { line: string }) => line)).toEqual([
      'x = 1',
      'print("out"); x',
      '/sh exit 3',
    ]);
  });
});
