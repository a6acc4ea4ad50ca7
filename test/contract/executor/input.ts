/** input(): asked of whoever runs the cell, in every cell, and never a hang. */

import { describe, expect, it } from 'vitest';
import type { ExecutionEvent, InputRequestEvent, Session } from '../../../src/index.ts';
import { inEnoughTime } from '../../support/kernels/enough-time.ts';
import { collect, type Open } from '../../support/kernels/session.ts';
import { kindLacks, lacks } from '../../support/kernels/unsupported.ts';

/** Runs code until it asks; `rest` gives what comes after. */
async function untilAsked(session: Session, code: string, options = {}) {
  const events = session.stream(code, options)[Symbol.asyncIterator]();
  for (let next = await events.next(); !next.done; next = await events.next()) {
    if (next.value.type === 'input_request') {
      const request: InputRequestEvent = next.value;
      const rest = async () => {
        const last: ExecutionEvent[] = [];
        for (let more = await events.next(); !more.done; more = await events.next()) last.push(more.value);
        const result = last.at(-1);
        if (result?.type !== 'result') throw new Error('no result');
        return result;
      };
      return { request, rest };
    }
  }
  throw new Error('the code asked nothing');
}

const caught = 'try:\n    print("got", input("? "))\nexcept EOFError as error:\n    print("EOF:", error)';

export function inputContract(open: Open, lend = open): void {
  describe('input', () => {
    it('works in every cell, the fifth like the first', async () => {
      await using session = await lend();
      for (let cell = 1; cell <= 5; cell++) {
        const asked: string[] = [];
        const onInput = ({ prompt, password }: InputRequestEvent) => {
          asked.push(`${prompt} ${password}`);
          return `answer ${asked.length}`;
        };
        const { value } = await session.run(`[input("a${cell}"), input(), input(5)]`, { onInput });
        expect(value).toEqual(['answer 1', 'answer 2', 'answer 3']);
        expect(asked).toEqual([`a${cell} false`, ' false', '5 false']);
      }
    });

    it('comes after earlier output', async () => {
      await using session = await lend();
      const seen: string[] = [];
      await session.run('print("one")\ninput("two")\nprint("three")', {
        onInput: () => 'x',
        onEvent: (event) => {
          if (event.type === 'stdout') seen.push(event.text);
          if (event.type === 'input_request') seen.push(event.prompt);
        },
      });
      expect(seen).toEqual(['one\n', 'two', 'three\n']);
    });

    it('gets the answer unchanged: empty, quotes, newlines, any character', async () => {
      await using session = await lend();
      for (const text of ['', '"\'\\', 'é😀', 'two\nlines', '\ud800', '\0']) {
        expect((await session.run('input()', { onInput: () => text })).value).toBe(text);
      }
    });

    it('by getpass is marked as a password', async () => {
      await using session = await lend();
      const asked: InputRequestEvent[] = [];
      const result = await session.run('import getpass\ngetpass.getpass("key: ")', {
        onInput: (request) => {
          asked.push(request);
          return 'secret';
        },
      });
      expect(result.value).toBe('secret');
      expect(asked).toMatchObject([{ prompt: 'key: ', password: true }]);
    });

    it('through sys.stdin is read line by line', async () => {
      await using session = await lend();
      const answers = ['first', 'second'];
      const onInput = () => answers.shift() ?? Promise.reject(new Error('no more'));
      const { value } = await session.run('import sys\n[sys.stdin.readline(), *sys.stdin]', { onInput });
      expect(value).toEqual(['first\n', 'second\n']);
    });

    it('works in a thread', async () => {
      await using session = await lend();
      if (await lacks(session, 'threads')) return;
      const code =
        'import threading\ngot = []\nt = threading.Thread(target=lambda: got.append(input("t")))\nt.start()\nt.join()\ngot';
      expect((await session.run(code, { onInput: ({ prompt }) => `${prompt}!` })).value).toEqual(['t!']);
    });

    it('in many threads at once returns the right answer to each', async () => {
      await using session = await lend();
      if (await lacks(session, 'threads')) return;
      const code = [
        'import threading',
        'got = {}',
        'def ask(n): got[str(n)] = input(str(n))',
        'threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]',
        'for t in threads: t.start()',
        'own = input("main")',
        'for t in threads: t.join()',
        '[own, got]',
      ].join('\n');
      const waiting: (() => void)[] = [];
      const onInput = ({ prompt }: InputRequestEvent) =>
        new Promise<string>((resolve) => {
          waiting.push(() => resolve(`=${prompt}`));
          if (waiting.length === 21) for (const answer of waiting.reverse()) answer();
        });
      const { value } = await session.run(code, { onInput });
      const numbers = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`${n}`, `=${n}`]));
      expect(value).toEqual(['=main', numbers]);
    });

    it('in a thread whose cell ends without an answer is an EOFError', async () => {
      await using session = await lend();
      if (await lacks(session, 'threads')) return;
      const code = [
        'import threading',
        'got = []',
        'def ask():',
        '    try: input("never")',
        '    except EOFError as error: got.append(str(error))',
        'thread = threading.Thread(target=ask)',
        'thread.start()',
        'input("main");',
      ].join('\n');
      const asked: InputRequestEvent[] = [];
      for await (const event of session.stream(code)) {
        if (event.type !== 'input_request') continue;
        asked.push(event);
        const main = asked.find(({ prompt }) => prompt === 'main');
        if (asked.length === 2 && main) await session.answerInput(main.id, '');
      }
      expect((await session.run('thread.join()\ngot')).value).toEqual(['the cell ended before input() was answered']);
    });

    it('between two cells is an EOFError at once', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      const background = session.background()[Symbol.asyncIterator]();
      await session.run(
        `import threading\ndef late():\n    ${caught.replaceAll('\n', '\n    ')}\nthreading.Timer(0.05, late).start()`,
      );
      expect((await background.next()).value).toMatchObject({ text: expect.stringMatching(/^EOF: .*no cell/) });
    });

    it('of a dead kernel is not answered in the next kernel', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      let late = 0;
      for await (const event of session.stream(
        'import os, threading\nthreading.Timer(0.2, os._exit, (1,)).start()\ninput()',
      )) {
        if (event.type === 'input_request') late = event.id;
      }
      for await (const event of session.stream('input()')) {
        if (event.type !== 'input_request') continue;
        await expect(session.answerInput(late, 'secret')).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
        await session.answerInput(event.id, 'mine');
      }
      expect((await session.run('_')).value).toBe('mine');
    });

    it('that is cancelled is an EOFError with the reason', async () => {
      await using session = await lend();
      const { request, rest } = await untilAsked(session, caught);
      await session.cancelInput(request.id, 'not today');
      expect((await rest()).stdout).toBe('EOF: not today\n');
    });

    it('that times out is an EOFError', async () => {
      await using session = await open({ inputTimeoutMs: 60_000 });
      const events = await collect(session.stream(caught, { inputTimeoutMs: 30 }));
      expect(events.at(-1)).toMatchObject({ status: 'ok', stdout: expect.stringMatching(/^EOF: nobody answered/) });
    });

    it('without anybody to answer is an EOFError at once', async () => {
      await using session = await lend();
      const result = await session.run('input("anyone? ")');
      expect(result).toMatchObject({ status: 'error', error: { name: 'EOFError' } });
      expect(result.error?.message).toContain('onInput');
      expect((await session.run('import sys\nsys.stdin.read()')).value).toBe('');
    });

    it('of a cell whose reader has stopped is an EOFError at once', async () => {
      await using session = await lend();
      const asking = 'print("first", flush=True)\ntry: input()\nexcept EOFError as error: asked = str(error)';
      for await (const event of session.stream(asking)) {
        expect(event).toMatchObject({ type: 'stdout', text: 'first\n' });
        break;
      }
      expect((await session.run('asked')).value).toContain('no client reads');
    });

    it('whose answer fails is an EOFError that says why', async () => {
      await using session = await lend();
      const onInput = () => {
        throw new Error('the person left');
      };
      expect((await session.run(caught, { onInput })).stdout).toContain('the person left');
    });

    it('with a prompt of millions of characters shows a part of it', async () => {
      await using session = await lend();
      const { value } = await session.run('input("p" * 5_000_000)', {
        onInput: ({ prompt }) => `${prompt.length > 1000}`,
      });
      expect(value).toBe('true');
    });

    it('accepts one answer, and refuses a second one and one to no question', async () => {
      await using session = await lend();
      await expect(session.answerInput(1, 'x')).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
      const { request, rest } = await untilAsked(session, 'input()');
      await session.answerInput(request.id, 'first');
      await expect(session.answerInput(request.id, 'second')).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
      await expect(session.cancelInput(request.id)).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
      expect((await rest()).value).toBe('first');
    });

    it('can be interrupted, and a late answer is discarded', async () => {
      await using session = await lend();
      const { request, rest } = await untilAsked(session, 'input("wait ")');
      expect(await session.interrupt()).toBe(true);
      expect(await rest()).toMatchObject({ status: 'interrupted', error: { name: 'KeyboardInterrupt' } });
      await expect(session.answerInput(request.id, 'late')).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
      expect((await session.run('input()', { onInput: () => 'own' })).value).toBe('own');
    });

    it('can be interrupted at any point of asking and answering', async () => {
      await using session = await lend();
      for (let round = 0; round < 150; round++) {
        let asked = 0;
        const { status, death } = await session.run('while True: input()', {
          onInput: () => 'more',
          onEvent: ({ type }) => {
            if (type === 'input_request' && ++asked === 1 + (round % 5)) setImmediate(() => session.interrupt());
          },
        });
        expect({ status, death }).toEqual({ status: 'interrupted', death: undefined });
      }
      expect((await session.run('input()', { onInput: () => 'last' })).value).toBe('last');
    });

    it('does not count as running time', async () => {
      await using session = await lend();
      // The one who answers takes longer than the code may run.
      const answered = (timeoutMs: number) => {
        const onInput = () => new Promise<string>((resolve) => setTimeout(resolve, timeoutMs + 200, 'slow'));
        return session.run('input()', { timeoutMs, onInput });
      };
      const result = await inEnoughTime(500, answered, ({ status }) => status === 'ok');
      expect(result).toMatchObject({ status: 'ok', value: 'slow' });
    });

    it('reads from a file that the code put in place of stdin', async () => {
      await using session = await lend();
      const code =
        'import io, sys\nkept, sys.stdin = sys.stdin, io.StringIO("from file\\n")\nline = input()\nsys.stdin = kept\nline';
      expect((await session.run(code)).value).toBe('from file');
    });
  });
}
