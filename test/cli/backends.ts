/** What the command line does, whichever way it works: alone, with the server on its data folder, or with one at an address. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { runHere } from '../support/cli/cli-here.ts';
import type { Cella, Started, StartOptions } from '../support/cli/command.ts';

export interface Way {
  readonly cella: Cella;
  /** Says where a command is to work. */
  readonly flags: readonly string[];
  /** A folder for files of the tests. */
  readonly folder: string;
}

const SKILL = '"""Doubles a number."""\nasync def run(n: int):\n    print("at work")\n    return n * 2\n';

export function waysContract(name: string, begin: () => Promise<Way>): void {
  describe(`the command line ${name}`, () => {
    let way: Way;
    beforeAll(async () => {
      way = await begin();
    });

    const words = ([first = '', ...rest]: readonly string[]) => {
      // Groups have their flags after the second word.
      const [second, ...others] = rest;
      const group = ['deps', 'skills', 'tools', 'artifacts', 'storage', 'checkpoints'].includes(first);
      if (group && second !== undefined) return [first, second, ...way.flags, ...others];
      return [first, ...way.flags, ...rest];
    };
    const run = (...given: string[]) => runHere(words(given), way.cella.dataDir);
    /** In a process of its own. */
    const runThere = (...given: string[]) => way.cella.run(words(given));
    const json = async (...given: string[]) => JSON.parse((await run(...given, '--json')).out);
    const start = (given: readonly string[], options: StartOptions = {}): Started =>
      way.cella.start(words(given), options);
    const chat = (agent: string, ...lines: string[]) =>
      runHere(words(['chat', '--key', agent, '--auto-sh']), way.cella.dataDir, {
        input: lines.map((line) => `${line}\n`).join(''),
      });
    const file = (called: string, content: string) => {
      const path = join(way.folder, called);
      writeFileSync(path, content);
      return path;
    };

    it('runs code, prints output and value, and returns an exit code', async () => {
      const code = 'import sys; print("to stdout"); print("to stderr", file=sys.stderr); 6 * 7';
      expect(await runThere('run', '--key', 'codes', '-c', code)).toEqual({
        code: 0,
        out: 'to stdout\n42\n',
        err: 'to stderr\n',
      });
      expect(await runThere('run', '--key', 'codes', '-c', '1 / 0')).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringMatching(/^Traceback[\s\S]*<cell 2>[\s\S]*ZeroDivisionError: division by zero\n$/),
      });
      expect(await runThere('run', '--key', 'codes', '-c', 'import sys; sys.exit(7)')).toMatchObject({ code: 7 });
      const late = await runThere(
        'run',
        '--key',
        'codes',
        '--timeout',
        '0.3',
        '-c',
        'print("on"); while True: pass'.replace('; ', '\n'),
      );
      expect(late).toMatchObject({ code: 124, out: 'on\n' });
    });

    it('keeps variables between commands, and prints events as JSON', async () => {
      expect(await runThere('run', '--key', 'kept', '-c', 'x = 41')).toEqual({ code: 0, out: '', err: '' });
      const { code, out } = await runThere('run', '--key', 'kept', '--json', '-c', 'print("hello"); x + 1');
      const events = out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(code).toBe(0);
      expect(events[0]).toEqual({ type: 'stdout', text: 'hello\n' });
      expect(events[1]).toMatchObject({ type: 'result', status: 'ok', execution: 2, value: 42, repr: '42' });
      expect(events[1]).toMatchObject({ stdout: 'hello\n', stderr: '', displays: [] });
      expect((await json('ps')).kernels).toContainEqual(
        expect.objectContaining({ agentKey: 'kept', executions: 2, state: expect.stringMatching(/live|hibernated/) }),
      );
      const dry = ['--transaction', 'rollback_always', '-c', 'x = 0; x'];
      expect((await runThere('run', '--key', 'kept', ...dry)).out).toBe('0\n');
    });

    it('answers input() and getpass() from a pipe until it ends', async () => {
      const code = 'import getpass\nprint("hello", input("who? "))\nprint(getpass.getpass("word? "))\ninput("more? ")';
      const {
        out,
        err,
        code: exitCode,
      } = await way.cella.run(words(['run', '--key', 'asks', '-c', code]), {
        input: 'ada\ns3cret\n',
      });
      expect(exitCode).toBe(1);
      expect(out).toBe('hello ada\ns3cret\n');
      expect(err).toMatch(/^who\? word\? more\? [\s\S]*EOFError/);
    });

    it('interrupts the code with Ctrl-C, and ends it when the command ends', async () => {
      const sleeping = ['run', '--key', 'stops', '-c', 'y = 1\nprint("on", flush=True)\nimport time; time.sleep(600)'];
      const interrupted = start(sleeping);
      await interrupted.says('on\n');
      interrupted.child.kill('SIGINT');
      expect(await interrupted.ended).toBe(130);
      expect(interrupted.err).toContain('KeyboardInterrupt');
      const ended = start(sleeping);
      await ended.says('on\n');
      ended.child.kill('SIGTERM');
      expect(await ended.ended).toBe(143);
      // It would wait behind what went on.
      expect(await run('run', '--key', 'stops', '--timeout', '20', '-c', 'y')).toMatchObject({ code: 0, out: '1\n' });
    });

    it('runs a chat: Python, variables, undo, a shell, checkpoints, packages', async () => {
      const { code, out, err } = await chat(
        'talks',
        '/py x = [1]',
        '/py x.append(2); x',
        '/undo',
        '/py x',
        '/vars',
        '/sh echo from the shell; exit 3',
        '/checkpoint here',
        '/py x = "later"',
        '/restore here',
        '/py x',
        '/deps',
        '/history',
      );
      expect({ code, out, err }).toMatchObject({ code: 0 });
      expect(out).toMatch(/^\[1, 2\]\n\[1\]\nNAME .*\nx +list .*\nfrom the shell\n\[1\]\n/);
      expect(out).toMatch(/^ *1 {3}x = \[1\]\n/m);
      expect(err).toMatch(/Undone: x.append\(2\); x\n/);
      expect(err).toMatch(/\[exit code 3\]\n[\s\S]*Back at "here"[\s\S]*The list of packages is empty/);
    });

    it('deletes the agent key of a chat without a key, and works line by line', async () => {
      const own = await way.cella.run(words(['chat', '--auto-py']), { input: 'z = 20\nz * 2\nexit\n' });
      expect(own).toMatchObject({ code: 0, out: '40\n' });
      const lines = 'def f(n):\n    return n + 1\n\nf(41)\n';
      expect(await way.cella.run(words(['repl', '--key', 'lines']), { input: lines })).toMatchObject({
        code: 0,
        out: '42\n',
      });
      const keys = (await json('ps')).kernels.map(({ agentKey }: { agentKey: string }) => agentKey);
      expect(keys).toContain('lines');
      expect(keys).not.toContainEqual(expect.stringMatching(/^chat-/));
    });

    it('installs packages that code can import at once, and removes them', async () => {
      await run('run', '--key', 'packed', '-c', 'x = 1');
      const added = await run('deps', 'add', 'tiny-thing');
      expect(added).toMatchObject({ code: 0, out: 'Installed tiny-thing.\n' });
      expect(added.err).toMatch(/^Installing tiny-thing with /);
      const code = 'import tiny_thing; x, tiny_thing.VERSION';
      expect(await run('run', '--key', 'packed', '-c', code)).toMatchObject({ out: "(1, '1.0.0')\n" });
      expect(await json('deps', 'sync')).toMatchObject({ failed: [] });
      expect(await run('run', '--key', 'packed', '--sync-deps', '-c', code)).toMatchObject({ code: 0 });
      expect(await run('deps', 'remove', 'tiny-thing')).toMatchObject({ code: 0, out: 'Removed tiny-thing.\n' });
      expect(await json('deps', 'list')).toEqual({ deps: [] });
    });

    it('stores skills and artifacts, and runs skills', async () => {
      const kept = await run('skills', 'create', 'double', file('double.py', SKILL));
      expect(kept).toMatchObject({ code: 0, out: 'Created the skill double(n: int).\n' });
      expect(await run('skills', 'run', 'double', 'n=21', '--key', 'skilled')).toEqual({
        code: 0,
        out: 'at work\n42\n',
        err: '',
      });
      const put = await run('artifacts', 'save', 'note.txt', file('note.txt', 'kept text'));
      expect(put).toMatchObject({ code: 0, out: expect.stringContaining('Saved the artifact "note.txt"') });
      expect((await run('run', '--key', 'skilled', '-c', 'artifacts.load("note.txt")')).out).toBe("'kept text'\n");
      expect((await run('artifacts', 'load', 'note.txt')).out).toBe('kept text');
      expect(await json('storage', 'list')).toMatchObject({ skills: ['double'], artifacts: [{ name: 'note.txt' }] });
      expect(await json('skills', 'delete', 'double')).toEqual({ deleted: 'double' });
    });

    it('calls tools, and asks a person before one that requires approval', async () => {
      const say = `name: say\ndescription: Says\ncommand: echo\nrequires_approval: true\n${WORDS}`;
      expect(await run('tools', 'create', file('say.yaml', say))).toMatchObject({ code: 0 });
      const unasked = await run('run', '--key', 'tooled', '-c', 'tools.say("hi")');
      expect(unasked).toMatchObject({ code: 1, err: expect.stringMatching(/PermissionError.*nobody can be asked/) });
      const call = ['tools', 'call', 'say', 'one', 'two; $(id)'];
      expect(await run(...call)).toMatchObject({ code: 1, err: expect.stringContaining('--approve') });
      expect(await run(...call, '--approve')).toEqual({ code: 0, out: 'one two; $(id)\n', err: '' });
      for (const [answer, exitCode] of [
        ['y', 0],
        ['n', 1],
      ] as const) {
        const asked = start(['run', '--key', 'tooled', '-c', 'print("it said", tools.say("hi"))'], {
          terminal: true,
        });
        await asked.says('[y/N]');
        expect(asked.out).toContain('echo hi');
        asked.type(`${answer}\r`);
        expect(await asked.ended).toBe(exitCode);
        expect(asked.out.includes('it said hi')).toBe(answer === 'y');
      }
      expect(await run('tools', 'delete', 'say')).toMatchObject({ code: 0 });
    });

    it('creates, lists, restores and deletes checkpoints, and forks', async () => {
      await run('run', '--key', 'pointed', '-c', 'x = 1');
      const [at, other] = [
        ['--key', 'pointed'],
        ['--key', 'nobody here'],
      ];
      expect(await run('checkpoints', 'create', 'one', ...at)).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^Checkpoint "one" \(\w{8}\) has 1 variable of "pointed"/),
      });
      await run('run', ...at, '-c', 'x = 2');
      expect((await run('checkpoints', 'list', ...at)).out).toMatch(/one +\w{8} /);
      expect(await run('fork', 'branched', ...at)).toMatchObject({ code: 0 });
      expect(await run('fork', 'branched', ...at)).toMatchObject({
        code: 2,
        err: expect.stringContaining('--replace'),
      });
      expect(await run('checkpoints', 'restore', 'one', ...at)).toMatchObject({ code: 0 });
      expect((await run('run', '--key', 'branched', '-c', 'x')).out).toBe('2\n');
      expect(await run('fork', 'branched', '--replace', ...at)).toMatchObject({ code: 0 });
      expect((await run('run', '--key', 'branched', '-c', 'x')).out).toBe('1\n');
      expect(await run('checkpoints', 'delete', 'one', ...at)).toMatchObject({ code: 0 });
      expect(await run('checkpoints', 'create', 'one', ...other)).toMatchObject({
        code: 2,
        err: expect.stringContaining('There is no kernel "nobody here"'),
      });
    });
  });
}

const WORDS = 'schema:\n  options: {}\n  positional: [{ name: words, variadic: true, type: string }]\n';
