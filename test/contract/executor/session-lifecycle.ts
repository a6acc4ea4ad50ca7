/** A session's own life: reset, restart, close, what it knows of its namespace, and that it shares nothing. */

import { chmod, mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Session, shutdown } from '../../../src/index.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

const PROCESSORS = 'import os\nsorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None';

export function lifeContract(open: Open, lend = open): void {
  describe('a shutdown of Cella in this process', () => {
    it('ends running code in open sessions, and closes them', async () => {
      const session = await open();
      const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
      await shutdown();
      expect((await result).status).toBe('died');
      await expect(session.run('1')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    });
  });

  describe('reset', () => {
    it('clears every variable and module state, and keeps the workspace', async () => {
      await using session = await lend();
      await session.run('import random\nrandom.mine = 1\nx = 1\nopen("file", "w").write("kept")');
      await session.reset();
      const result = await session.run('import random\n["x" in dir(), hasattr(random, "mine"), open("file").read()]');
      expect(result.value).toEqual([false, false, 'kept']);
      expect(result.recovered).toBeUndefined();
    });

    it('ends what runs, and what waits runs in the fresh kernel', async () => {
      await using session = await lend();
      const { result } = await runUntilReady(session, 'x = 1\nprint("ready", flush=True)\nwhile True: pass');
      const next = session.run('"x" in dir()');
      await session.reset();
      expect((await result).status).toBe('died');
      expect(await next).toMatchObject({ status: 'ok', value: false });
    });
  });

  describe('restart', () => {
    it('clears names, processes and /tmp, and keeps the workspace', async () => {
      await using session = await lend();
      const before = session.pid;
      await session.run('x = 1\nopen("/tmp/t", "w").write("t")\nopen("file", "w").write("kept")');
      await session.restart();
      const result = await session.run('import os\n["x" in dir(), os.path.exists("/tmp/t"), open("file").read()]');
      expect(result.value).toEqual([false, false, 'kept']);
      expect(result.recovered).toBeUndefined();
      if (await lacks(session, 'subprocesses')) return;
      expect(session.pid).not.toBe(before);
    });

    it('ends what runs, and what waits runs in the fresh kernel', async () => {
      await using session = await lend();
      const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
      const next = [session.run('1'), session.run('2')];
      await session.restart();
      expect((await result).status).toBe('died');
      expect((await Promise.all(next)).map(({ value }) => value)).toEqual([1, 2]);
    });
  });

  describe('close', () => {
    it('ends what runs and refuses what waits and what comes', async () => {
      const session = await open();
      const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
      const waiting = session.run('1');
      const refused = expect(waiting).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
      await Promise.all([session.close(), session.close()]);
      expect(await result).toMatchObject({ status: 'died', stdout: 'ready\n' });
      await refused;
      const closed = expect.objectContaining({ code: 'SESSION_CLOSED' });
      await expect(session.run('1')).rejects.toEqual(closed);
      expect(() => session.stream('1')).toThrow(closed);
      await expect(session.reset()).rejects.toEqual(closed);
      await expect(session.restart()).rejects.toEqual(closed);
      await expect(session.variables()).rejects.toEqual(closed);
      await expect(session.complete('x')).rejects.toEqual(closed);
      expect(await session.interrupt()).toBe(false);
      expect(session.pid).toBe(0);
      await session.close();
    });

    it('happens at the end of `await using`', async () => {
      let outside: Session;
      {
        await using session = await open();
        outside = session;
        await session.run('1');
      }
      await expect(outside.run('1')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    });

    it('leaves no process behind', async () => {
      const session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('import subprocess\nsubprocess.Popen(["sleep", "1000"], start_new_session=True);');
      const { pid } = session;
      expect(() => process.kill(pid, 0)).not.toThrow();
      await session.close();
      // The process is reaped by its parent a moment after the connection is gone.
      await expect.poll(() => isAlive(pid)).toBe(false);
    });
  });

  describe('bad options', () => {
    it('are refused before anything starts', { timeout: 240_000 }, async () => {
      await expect(open({ timeoutMs: -1 })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      await expect(open({ preload: ['no_such_module_here'] })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      await expect(open({ cwd: '/no/such/folder' })).rejects.toThrow(/\/no\/such\/folder/);
    });

    it('of a cell are refused, and the session goes on', async () => {
      await using session = await lend();
      await expect(session.run('1', { timeoutMs: -1 })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      expect(await session.run('1')).toMatchObject({ status: 'ok', value: 1 });
      expect(await session.variables()).toEqual(expect.any(Array));
    });
  });
}

export function introspectionContract(open: Open, lend = open): void {
  describe('introspection', () => {
    it('completes names, attributes and modules, with offsets as in JavaScript', async () => {
      await using session = await lend();
      await session.run('apple = "a"\napricot = 1');
      const names = await session.complete('print("😀", ap');
      expect(names.matches.map(({ text }) => text)).toEqual(expect.arrayContaining(['apple', 'apricot']));
      expect([names.start, names.end]).toEqual(['print("😀", '.length, 'print("😀", ap'.length]);
      const attributes = await session.complete('apple.upp + 1', 'apple.upp'.length);
      expect(attributes.matches.map(({ text }) => text).join()).toContain('upper');
      expect((await session.complete('import jso')).matches.map(({ text }) => text)).toContain('json');
      expect((await session.complete('no_such_name_at_all')).matches).toEqual([]);
    });

    it('inspects what a cell defined, with signature, doc and source', async () => {
      await using session = await lend();
      await session.run('def area(w, h=2):\n    """Width times height."""\n    return w * h');
      expect(await session.inspect('area(')).toMatchObject({
        found: true,
        doc: 'Width times height.',
        source: expect.stringContaining('return w * h'),
        signature: expect.stringContaining('(w, h=2)'),
      });
      expect(await session.inspect('nothing_here')).toEqual({ found: false });
    });

    it('tells whether code is complete', async () => {
      await using session = await lend();
      expect(await session.isComplete('x = 1')).toEqual({ status: 'complete' });
      expect(await session.isComplete('def f():')).toMatchObject({ status: 'incomplete' });
      expect(await session.isComplete('x = (1,')).toMatchObject({ status: 'incomplete' });
      expect(await session.isComplete('x = = 1')).toMatchObject({ status: 'invalid' });
    });

    it('lists variables with type, size and preview, and nothing of ours', async () => {
      await using session = await open();
      expect(await session.variables()).toEqual([]);
      await session.run('numbers = [1, 2, 3]\ntext = "é"\n5');
      const variables = await session.variables();
      expect(variables.map(({ name }) => name).sort()).toEqual(['numbers', 'text']);
      expect(variables.find(({ name }) => name === 'numbers')).toMatchObject({
        type: 'list',
        length: '3',
        preview: '[1, 2, 3]',
      });
      expect(variables.every(({ size }) => size > 0)).toBe(true);
    });

    it('survives objects that break when they are looked at', async () => {
      await using session = await lend();
      await session.run(
        'class Bad:\n    def __repr__(self): raise ValueError\n    def __len__(self): raise ValueError\n    def __getattr__(self, name): raise RuntimeError\n    def __dir__(self): raise ValueError\nbad = Bad()\ngood = 1',
      );
      expect((await session.variables()).map(({ name }) => name)).toEqual(expect.arrayContaining(['bad', 'good']));
      await session.complete('bad.').catch((error) => expect(error).toMatchObject({ code: 'INTROSPECTION_FAILED' }));
      await session.inspect('bad').catch((error) => expect(error).toMatchObject({ code: 'INTROSPECTION_FAILED' }));
      expect((await session.run('good')).value).toBe(1);
    });

    it('can be asked many things at once', async () => {
      await using session = await lend();
      await session.run('x = 1');
      const answers = await Promise.all([
        session.variables(),
        session.isComplete('x'),
        session.complete('x'),
        session.run('x'),
      ]);
      expect(answers[0]).toHaveLength(1);
      expect(answers[3].value).toBe(1);
    });

    it('remembers the cells that ran and how they ended', async () => {
      await using session = await open();
      await session.run('1');
      await session.run('1/0');
      await session.run('import os\nos._exit(1)');
      await session.run('while True: pass', { timeoutMs: 50 });
      expect(await session.history()).toEqual([
        { execution: 1, code: '1', status: 'ok' },
        { execution: 2, code: '1/0', status: 'error' },
        { execution: 3, code: 'import os\nos._exit(1)', status: 'died' },
        { execution: 4, code: 'while True: pass', status: 'timeout' },
      ]);
    });
  });
}

/** `many`: how many are opened at once. */
export function separationContract(open: Open, many = 30): void {
  describe('sessions', () => {
    it.each(['handle:risk gate', '../../etc/passwd', '😀', 'a/b', 'it\'s "quoted"', 'x'.repeat(1000), '\ud800', '-rf'])(
      'take any text for an agent key: %j',
      async (agentKey) => {
        await using session = await open({ agentKey });
        expect(session.agentKey).toBe(agentKey);
        expect((await session.run('1')).value).toBe(1);
      },
    );

    it('share nothing', async () => {
      const dataDir = await scratchFolder();
      await using one = await open({ dataDir, agentKey: 'one' });
      await using two = await open({ dataDir, agentKey: 'two' });
      await one.run(
        'import os, random\nx = 1\nrandom.mine = 1\nos.environ["MINE"] = "1"\nopen("mine", "w").close()\nopen("/tmp/mine", "w").close()\nos.chdir("/")',
      );
      const code =
        'import os, random\n["x" in dir(), hasattr(random, "mine"), "MINE" in os.environ, os.path.exists("mine"), os.path.exists("/tmp/mine"), os.getcwd() == "/"]';
      expect((await two.run(code)).value).toEqual([false, false, false, false, false, false]);
    });

    it('of one agent key find the workspace of the last', async () => {
      const dataDir = await scratchFolder();
      {
        await using session = await open({ dataDir, agentKey: 'a' });
        await session.run('open("note", "w").write("kept")');
      }
      await using session = await open({ dataDir, agentKey: 'a' });
      expect((await session.run('open("note").read()')).value).toBe('kept');
    });

    it('have random numbers of their own', async () => {
      const code = 'import random, uuid, os\n[random.random(), str(uuid.uuid4()), os.urandom(4).hex()]';
      const sessions = await Promise.all([open(), open(), open()]);
      const drawn = await Promise.all(sessions.map((session) => session.run(code)));
      const values = drawn.flatMap(({ value }) => value as unknown[]);
      expect(new Set(values).size).toBe(9);
    });

    it('get the variables that were passed, whatever is in them, and none of the host', async () => {
      process.env.CELLA_TEST_SECRET = 'of the host';
      try {
        const env = { QUOTES: `"'\\$(x)\n`, EMPTY: '', UNICODE: 'é😀' };
        await using session = await open({ env });
        const { value } = await session.run('import os\ndict(os.environ)');
        expect(value).toMatchObject(env);
        expect(JSON.stringify(value)).not.toContain('of the host');
        if (await lacks(session, 'subprocesses')) return;
        const child = await session.run(
          'import subprocess\nsubprocess.run(["env"], capture_output=True, text=True).stdout',
        );
        expect(child.value).toContain('UNICODE=é😀');
        expect(child.value).not.toContain('CELLA_TEST_SECRET');
      } finally {
        delete process.env.CELLA_TEST_SECRET;
      }
    });

    it('work in the folder that was asked for', async () => {
      const cwd = join(await scratchFolder(), 'work');
      await mkdir(cwd);
      // Not every executor can show it to the code as the code's own.
      await chmod(cwd, 0o777);
      await writeFile(join(cwd, 'given'), 'by the host');
      await using session = await open({ cwd });
      expect(session.cwd).toBe(cwd);
      const { value } = await session.run(
        'import os\nopen("made", "w").write("by the code")\n[os.getcwd(), open("given").read(), sorted(os.listdir())]',
      );
      expect(value).toEqual([cwd, 'by the host', ['given', 'made']]);
    });

    it('have modules ready that were asked for, each its own copy', { timeout: 240_000 }, async () => {
      const ready = { dataDir: await scratchFolder(), preload: ['decimal', 'json.tool'] };
      await using one = await open({ ...ready, agentKey: 'one' });
      await using two = await open({ ...ready, agentKey: 'two' });
      const code = 'import sys\n[name in sys.modules for name in ("decimal", "json.tool")]';
      expect((await one.run(code)).value).toEqual([true, true]);
      await one.run('import decimal\ndecimal.mine = 1');
      expect((await two.run('import decimal\nhasattr(decimal, "mine")')).value).toBe(false);
    });

    it('that come from spares were there before, and carry nothing of those before them', async () => {
      const dataDir = await scratchFolder();
      await using holder = await open({ dataDir, agentKey: 'owner of spares', spares: 1 });
      const seen = new Set<unknown>();
      for (let round = 0; round < 3; round++) {
        await eventually(
          () => holder.spares,
          (count) => count === 1,
          30_000,
        );
        const asked = Date.now();
        await using session = await open({ dataDir, agentKey: `agent ${round}`, env: { ROUND: `${round}` } });
        // Its folder is the spare's own, with another name.
        expect((await stat(session.cwd)).birthtimeMs).toBeLessThan(asked);
        const { value } = await session.run(
          'import os, random\nfound = ["x" in dir(), os.path.exists("/tmp/x"), os.environ["ROUND"], os.listdir()]\nx = 1\nopen("/tmp/x", "w").close()\nopen("x", "w").close()\nseed = random.random()\n[*found, seed]',
        );
        const [names, tmp, env, files, random] = value as unknown[];
        expect([names, tmp, env, files]).toEqual([false, false, `${round}`, []]);
        // It went out of the host's way, and may go everywhere again.
        expect((await session.run(PROCESSORS)).value).toEqual((await holder.run(PROCESSORS)).value);
        seen.add(random);
        await session.reset();
        expect((await session.run('import os\nos.listdir()')).value).toEqual(['x']);
      }
      expect(seen.size).toBe(3);
    });

    it(`open ${many} at once, none lost`, { timeout: 240_000 }, async () => {
      const sessions = await Promise.all(Array.from({ length: many }, (_, n) => open({ agentKey: `many ${n}` })));
      const results = await Promise.all(sessions.map((session, n) => session.run(`x = ${n}\nx`)));
      expect(results.map(({ value }) => value)).toEqual(Array.from({ length: many }, (_, n) => n));
      await Promise.all(sessions.map((session) => session.close()));
    });
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
