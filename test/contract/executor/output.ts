/** Output: both streams whole and in order, while the code runs, from Python, C and children, in bounded memory. */

import { describe, expect, it } from 'vitest';
import type { ExecutionEvent, Session } from '../../../src/index.ts';
import { collect, type Open, resultOf } from '../../support/kernels/session.ts';
import { kindLacks, lacks } from '../../support/kernels/unsupported.ts';

const MB = 1024 * 1024;
/** The text between the cells up to its end, and which executions it carries. */
async function lateOf(session: Session, end: string): Promise<{ text: string; executions: unknown[] }> {
  let text = '';
  const executions = new Set<unknown>();
  for await (const event of session.background()) {
    if (event.type !== 'stdout') continue;
    text += event.text;
    executions.add(event.execution);
    if (text.endsWith(end)) break;
  }
  return { text, executions: [...executions] };
}

const textOf = (events: readonly ExecutionEvent[], type: 'stdout' | 'stderr') =>
  events.map((event) => (event.type === type ? event.text : '')).join('');

export function outputContract(open: Open, lend = open): void {
  describe('output', () => {
    it('arrives on two streams, each complete and in order, before the result', async () => {
      await using session = await lend();
      const events = await collect(
        session.stream('import sys\nfor n in range(2000):\n    print("out", n)\n    print("err", n, file=sys.stderr)'),
      );
      const lines = (word: string) => Array.from({ length: 2000 }, (_, n) => `${word} ${n}\n`).join('');
      expect(textOf(events, 'stdout')).toBe(lines('out'));
      expect(textOf(events, 'stderr')).toBe(lines('err'));
      expect(resultOf(events)).toMatchObject({ stdout: lines('out'), stderr: lines('err') });
    });

    it('is streamed while the code runs', async () => {
      await using session = await lend();
      const seen: string[] = [];
      for await (const event of session.stream('print("early", end="")\ninput()\nprint("late", end="")')) {
        seen.push(event.type === 'stdout' ? event.text : event.type);
        if (event.type === 'input_request') await session.answerInput(event.id, '');
      }
      expect(seen).toEqual(['early', 'input_request', 'late', 'result']);
    });

    it('is streamed without a newline or a flush from code that never ends', async () => {
      await using session = await lend();
      const events = session.stream('print("no newline", end="")\nwhile True: pass');
      let first: string | undefined;
      for await (const event of events) {
        if (event.type === 'stdout' && first === undefined) {
          first = event.text;
          await session.interrupt();
        }
      }
      expect(first).toBe('no newline');
    });

    it('is streamed through a write function that an earlier cell kept', async () => {
      await using session = await lend();
      await session.run("import sys, time\nprint('first')\ntime.sleep(0.05)\nwrite = sys.stdout.write");
      const first = Promise.withResolvers<void>();
      const result = session.run("write('early')\ninput()", {
        onEvent: (event) => {
          if (event.type === 'stdout' && event.text.includes('early')) first.resolve();
        },
        // Answered only when the text is there: it must not wait for the cell to end.
        onInput: async () => {
          await first.promise;
          return 'late';
        },
      });
      expect((await result).value).toBe('late');
    });

    it('is captured from children, C code and raw descriptors, in order with print', async () => {
      await using session = await lend();
      if (await lacks(session, 'subprocesses')) return;
      const result = await session.run(
        [
          'import os, subprocess, sys, ctypes',
          'print("1 print")',
          'os.system("echo 2 system; echo 2 err >&2")',
          'print("3 print")',
          'subprocess.run(["echo", "4 subprocess"])',
          'os.write(1, b"5 raw\\n")',
          'print("6 print", flush=True)',
          'ctypes.CDLL(None).printf(b"7 printf\\n")',
          'ctypes.CDLL(None).fflush(None)',
          'print("8 print")',
          'os.write(2, b"raw err\\n");',
        ].join('\n'),
      );
      expect(result.stdout).toBe('1 print\n2 system\n3 print\n4 subprocess\n5 raw\n6 print\n7 printf\n8 print\n');
      expect(result.stderr).toBe('2 err\nraw err\n');
    });

    it('of C code that does not flush arrives with its own cell', async () => {
      await using session = await lend();
      if (await lacks(session, 'native code')) return;
      const result = await session.run('import ctypes\nctypes.CDLL(None).printf(b"unflushed");');
      expect(result.stdout).toBe('unflushed');
    });

    it('of a forked process is captured, and that process ends with the cell', async () => {
      await using session = await lend();
      if (await lacks(session, 'subprocesses')) return;
      const result = await session.run(
        'import os\npid = os.fork()\nif pid == 0: print("child")\nelse: os.waitpid(pid, 0)\npid > 0',
      );
      expect(result).toMatchObject({ status: 'ok', value: true, stdout: 'child\n' });
      expect((await session.run('1')).value).toBe(1);
    });

    it('keeps a character whole if it is written byte by byte', async () => {
      await using session = await lend();
      const result = await session.run(
        'import os, time\nfor byte in "é😀".encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.005)',
      );
      expect(result.stdout).toBe('é😀');
    });

    it('with invalid UTF-8 gets replacement characters, and later text is intact', async () => {
      await using session = await lend();
      const result = await session.run('import os\nos.write(1, b"a\\xff\\xfe\\x80b\\n")\nprint("ok")');
      expect(result.stdout).toMatch(/^a\ufffd+b\nok\n$/);
    });

    it('can contain null bytes and lone surrogates', async () => {
      await using session = await lend();
      const result = await session.run('print("a\\0b")\nprint("\\ud800")');
      expect(result).toMatchObject({ status: 'ok', stdout: 'a\0b\n\\ud800\n' });
    });

    it('with bytes that look like a frame or a marker is text', async () => {
      await using session = await lend();
      const result = await session.run(
        'import os\nos.write(1, b"\\xff" * 100 + b"\\x05\\0\\0\\0r\\1\\0\\0\\0hello")\n1',
      );
      expect(result).toMatchObject({ status: 'ok', value: 1 });
      expect(result.stdout).toHaveLength(100 + 14);
    });

    it('of a hundred megabytes is streamed in bounded memory, and the result says what it leaves out', async () => {
      await using session = await lend();
      const before = process.memoryUsage().rss;
      let most = 0;
      let bytes = 0;
      let result: ExecutionEvent | undefined;
      const code = 'line = "x" * 999 + "\\n"\nfor _ in range(100_000): print(line, end="")';
      for await (const event of session.stream(code)) {
        if (event.type === 'stdout') bytes += event.text.length;
        else result = event;
        most = Math.max(most, process.memoryUsage().rss);
      }
      expect(bytes).toBe(100_000_000);
      expect(most - before).toBeLessThan(200 * MB);
      if (result?.type !== 'result') throw new Error('no result');
      const kept = result.stdout.match(/x|\n(?!…)/g)?.length ?? 0;
      expect(result.truncated?.stdoutBytes).toBeGreaterThan(98_000_000);
      expect(result.stdout.length).toBeLessThan(1.2 * MB);
      expect(kept).toBeGreaterThan(0.9 * MB);
      expect(result.stdout).toContain('bytes left out');
    });

    it('of one line of fifty megabytes is streamed completely', async () => {
      await using session = await lend();
      let bytes = 0;
      for await (const event of session.stream('print("y" * 50_000_000)')) {
        if (event.type === 'stdout') bytes += event.text.length;
      }
      expect(bytes).toBe(50_000_001);
    });

    it('is limited in the result: its beginning and its end', async () => {
      await using session = await open({ outputLimitBytes: 100 });
      const result = await session.run('print("begin" + "." * 1000 + "end", end="")');
      expect(result.stdout).toMatch(/^begin\.+\n… 908 bytes left out …\n\.+end$/);
      expect(result.truncated).toEqual({ stdoutBytes: 908 });
    });

    it('waits for a slow reader, who misses nothing', async () => {
      await using session = await lend();
      const events = session
        .stream('for n in range(40): print("z" * 100_000)\nprint("written")')
        [Symbol.asyncIterator]();
      const first = await events.next();
      expect(first.value).toMatchObject({ type: 'stdout' });
      // The code cannot have written four megabytes into a queue of one: it is held up, and asks nothing of the reader.
      let bytes = first.value?.type === 'stdout' ? first.value.text.length : 0;
      for (let next = await events.next(); !next.done; next = await events.next()) {
        if (next.value.type === 'stdout') bytes += next.value.text.length;
        else expect(next.value).toMatchObject({ type: 'result', status: 'ok' });
      }
      expect(bytes).toBe(40 * 100_001 + 'written\n'.length);
    });

    it('without a reader does not prevent stopping the code', async () => {
      await using session = await lend();
      const stream = session.stream('print("ready")\nwhile True: print("w" * 10_000)');
      const events = stream[Symbol.asyncIterator]();
      await events.next();
      expect(await session.interrupt()).toBe(true);
      let last: ExecutionEvent | undefined;
      for (let next = await events.next(); !next.done; next = await events.next()) last = next.value;
      expect(last).toMatchObject({ type: 'result', status: 'interrupted' });
    });

    it('continues after its reader has stopped', async () => {
      await using session = await lend();
      for await (const _ of session.stream('for _ in range(100): print("v" * 100_000)\ndone = True')) break;
      expect((await session.run('done')).value).toBe(true);
    });

    it('works again in the next cell, whatever the code did to it', async () => {
      await using session = await open();
      for (const code of [
        'import sys\nsys.stdout = None',
        'import os\nos.close(1)\nos.close(2)',
        'import sys\nsys.__stdout__.close()',
        'import os\nos.closerange(0, 256)',
        'import builtins\ndel builtins.print',
        'import sys\nsys.__stdout__.detach()',
      ]) {
        await session.run(code);
        const result = await session.run('import sys\nsys.stdout = sys.__stdout__\nprint("still here")\n1');
        expect(result, code).toMatchObject({ status: 'ok', value: 1, stdout: 'still here\n' });
      }
    });
  });

  describe('output in the background', () => {
    it('can be a display of any value', async () => {
      await using session = await open();
      const show = 'class Wide:\n  def _repr_mimebundle_(self, **_): return {"application/json": 10 ** 30}\n';
      const background = session.background()[Symbol.asyncIterator]();
      const wait = 'import threading, asyncio\nasync def later():\n  await asyncio.sleep(0.01)\n  display(Wide())\n';
      await session.run(`${show}${wait}task = asyncio.ensure_future(later()); await asyncio.sleep(0)`);
      const { value } = await background.next();
      expect(value).toMatchObject({ data: { 'application/json': 10n ** 30n }, execution: 1 });
      expect((await session.run('1 + 1')).value).toBe(2);
    });

    it('of a thread that outlives its cell arrives separately, not in the next result', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      await session.run(
        'import threading\ngo = threading.Event()\ndef late():\n    go.wait()\n    print("late")\nthreading.Thread(target=late).start()',
      );
      const background = session.background()[Symbol.asyncIterator]();
      await session.run('threading.Timer(0.05, go.set).start()');
      expect((await background.next()).value).toEqual({ type: 'stdout', text: 'late\n', execution: 1 });
      expect((await session.run('1')).stdout).toBe('');
    });

    it('of a child process that outlives its cell arrives separately', async () => {
      if (await kindLacks(lend, 'subprocesses')) return;
      await using session = await open();
      const background = session.background()[Symbol.asyncIterator]();
      await session.run('import subprocess\np = subprocess.Popen(["sh", "-c", "sleep 0.1; echo from child"])');
      expect((await background.next()).value).toEqual({ type: 'stdout', text: 'from child\n', execution: 1 });
    });

    it('of a thread, and of threads that it starts, is not part of another running cell', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      await session.run(
        [
          'import sys, threading',
          'asked, told = threading.Event(), threading.Event()',
          'def work():',
          '    asked.wait()',
          '    print("of the first")',
          '    inner = threading.Thread(target=print, args=("of its thread",))',
          '    inner.start()',
          '    inner.join()',
          '    display("shown")',
          '    told.set()',
          'thread = threading.Thread(target=work)',
          'thread.start()',
        ].join('\n'),
      );
      const background = lateOf(session, 'of its thread\n');
      const result = await session.run('print("before")\nasked.set()\ntold.wait()\nprint("after")\nthread.join()');
      expect(result).toMatchObject({ status: 'ok', stdout: 'before\nafter\n', displays: [] });
      expect(await background).toEqual({ text: 'of the first\nof its thread\n', executions: [1] });
      // Work that is handed to a pool belongs to the cell that hands it over, not to the one that made the pool.
      const pool = 'from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n';
      expect((await session.run(`${pool}pool.submit(print, "one").result()`)).stdout).toBe('one\n');
      expect((await session.run('pool.submit(print, "two").result()')).stdout).toBe('two\n');
    });

    it('of a task that continues while another cell waits has its own execution, also after a rollback', async () => {
      await using session = await open();
      await session.run(
        [
          'import asyncio',
          'go = asyncio.Event()',
          'async def later():',
          '    await go.wait()',
          '    print("of the first")',
          'task = asyncio.ensure_future(later())',
          'await asyncio.sleep(0)',
        ].join('\n'),
      );
      await session.run('pass', { transaction: 'rollback_always' });
      const background = lateOf(session, 'of the first\n');
      const result = await session.run('print("mine")\ngo.set()\nawait task\nprint("too")');
      expect(result).toMatchObject({ status: 'ok', stdout: 'mine\ntoo\n' });
      expect(await background).toEqual({ text: 'of the first\n', executions: [1] });
    });

    it('of a thread that prints endlessly is complete and in order, and so is the output of other cells', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      const line = '😀é'.repeat(800);
      const first = await session.run(
        [
          'import threading, time',
          'def work():',
          '    for n in range(100):',
          `        print(n, "😀é" * 800)`,
          '        time.sleep(0.001)',
          '    print("done")',
          'thread = threading.Thread(target=work)',
          'thread.start()',
        ].join('\n'),
      );
      const background = lateOf(session, 'done\n');
      for (let cell = 0; cell < 20; cell++) {
        expect((await session.run(`for n in range(50): print(n, end="")`)).stdout).toBe(
          Array.from({ length: 50 }, (_, n) => n).join(''),
        );
      }
      await session.run('thread.join()');
      const { text, executions } = await background;
      const whole = Array.from({ length: 100 }, (_, n) => `${n} ${line}\n`).join('');
      expect(first.stdout + text === `${whole}done\n`).toBe(true);
      expect(executions).toEqual([1]);
      // Several at once, each in its order.
      const many = await session.run(
        [
          'def count(name):',
          '    for n in range(10_000): print(f"{name}{n}\\n", end="")',
          'threads = [threading.Thread(target=count, args=(name,)) for name in "abc"]',
          'for thread in threads: thread.start()',
          'for thread in threads: thread.join()',
        ].join('\n'),
      );
      const lines = many.stdout.split('\n');
      for (const name of 'abc') {
        const own = lines.filter((text) => text.startsWith(name)).map((text) => Number(text.slice(1)));
        expect(own.length === 10_000 && own.every((n, index) => n === index)).toBe(true);
      }
    });

    it('ends with the session', async () => {
      const session = await open();
      const reading = (async () => {
        for await (const _ of session.background());
        return 'ended';
      })();
      await session.close();
      expect(await reading).toBe('ended');
    });
  });
}
