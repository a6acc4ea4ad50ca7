import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import type { ExecutionEvent, ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionApi } from '../../session/api.ts';
import { CliTerminal } from '../terminal/terminal.ts';
import { readSource, run } from './run.ts';

const ok: ResultEvent = {
  type: 'result',
  status: 'ok',
  execution: 1,
  stdout: '',
  stderr: '',
  displays: [],
  durationMs: 1,
};

/** A session whose execution is written down by the test. Nothing but what `run` uses is there. */
class FakeSession extends EventEmitter {
  readonly agentKey = 'fake';
  closed = 0;
  interrupts = 0;
  answers: (string | undefined)[] = [];
  asked: unknown[] = [];
  readonly #events: (session: FakeSession) => AsyncGenerator<ExecutionEvent>;

  constructor(events: (session: FakeSession) => AsyncGenerator<ExecutionEvent>) {
    super();
    this.#events = events;
  }

  stream(...asked: unknown[]) {
    this.asked = asked;
    return this.#events(this);
  }

  async answerInput(_id: number, text: string) {
    this.answers.push(text);
    this.emit('answer');
  }

  async cancelInput() {
    this.answers.push(undefined);
    this.emit('answer');
  }

  async interrupt() {
    this.interrupts++;
    this.emit('interrupt');
    return true;
  }

  async [Symbol.asyncDispose]() {
    this.closed++;
  }
}

async function runWith(
  events: (session: FakeSession) => AsyncGenerator<ExecutionEvent>,
  options: { stdin?: Readable; stdout?: Writable; json?: boolean; signals?: EventEmitter; timeoutMs?: number } = {},
) {
  const session = new FakeSession(events);
  const stdout = options.stdout ?? new PassThrough();
  const stderr = new PassThrough();
  const exit = run(
    {
      source: { kind: 'code', code: '' },
      session: { dataDir: '/', sandbox: 'on' },
      timeoutMs: options.timeoutMs ?? 0,
      json: options.json ?? false,
    },
    {
      terminal: new CliTerminal({ stdin: options.stdin ?? Readable.from([]), stdout, stderr }),
      signals: options.signals ?? new EventEmitter(),
      backend: { openSession: async () => session as unknown as SessionApi },
    },
  );
  const exitCode = await exit.catch((error: { code?: string }) => error.code);
  const text = (stream: Writable) => (stream instanceof PassThrough ? String(stream.read() ?? '') : '');
  return { exitCode, session, out: text(stdout), err: text(stderr) };
}

describe('run', () => {
  it('prints the value on its own line, whatever was printed before', async () => {
    const { out, exitCode } = await runWith(async function* () {
      yield { type: 'stdout', text: 'no end' };
      yield { ...ok, value: 42, repr: '42' };
    });
    expect([out, exitCode]).toEqual(['no end\n42\n', 0]);
  });

  it('answers each input() with a line of stdin, and fails it when stdin has ended', async () => {
    const { session, err } = await runWith(
      async function* (fake) {
        for (const id of [1, 2, 3]) {
          yield { type: 'input_request', id, prompt: `${id}? `, password: false };
          if (fake.answers.length < id) await once(fake, 'answer');
        }
        yield ok;
      },
      { stdin: Readable.from([Buffer.from('a\nb')]) },
    );
    expect(session.answers).toEqual(['a', 'b', undefined]);
    expect(err).toBe('1? 2? 3? ');
  });

  it('limits the time for an answer from a pipe to that of the code, and not for a person', async () => {
    const events = async function* () {
      yield ok;
    };
    const piped = await runWith(events, { timeoutMs: 500 });
    expect(piped.session.asked[1]).toEqual({ timeoutMs: 500, inputTimeoutMs: 500 });
    const person = Object.assign(new PassThrough(), { isTTY: true });
    const asked = await runWith(events, { timeoutMs: 500, stdin: person });
    expect(asked.session.asked[1]).toEqual({ timeoutMs: 500, inputTimeoutMs: 0 });
  });

  it('requests the next event only when the reader has taken the last', async () => {
    let taken = 0;
    let produced = 0;
    let ahead = 0;
    const stdout = new Writable({
      write(_chunk, _encoding, done) {
        taken++;
        setImmediate(done);
      },
    });
    await runWith(
      async function* () {
        for (; produced < 20; produced++) {
          ahead = Math.max(ahead, produced - taken);
          yield { type: 'stdout', text: 'x' };
        }
        yield ok;
      },
      { stdout },
    );
    expect([taken, ahead]).toEqual([20, 0]);
  });

  it('closes the session when the reader of the output disconnects', async () => {
    const stdout = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })),
    });
    const { exitCode, session } = await runWith(
      async function* () {
        for (;;) yield { type: 'stdout', text: 'y\n' };
      },
      { stdout },
    );
    expect([exitCode, session.closed]).toEqual(['EPIPE', 1]);
  });

  it('passes the first Ctrl-C to the code, and ends on the second', async () => {
    const signals = new EventEmitter();
    const { exitCode, session } = await runWith(
      async function* (fake) {
        const interrupted = once(fake, 'interrupt');
        signals.emit('SIGINT');
        await interrupted;
        signals.emit('SIGINT');
        await new Promise(() => {});
        yield ok;
      },
      { signals },
    );
    expect([exitCode, session.interrupts, session.closed]).toEqual([130, 1, 1]);
    expect(signals.eventNames()).toEqual([]);
  });

  it('says if another client interrupted the code', async () => {
    const error = { name: 'KeyboardInterrupt', message: '', traceback: 'KeyboardInterrupt\n' };
    const interrupted: ResultEvent = { ...ok, status: 'interrupted', error };
    const elsewhere = await runWith(async function* () {
      yield interrupted;
    });
    expect(elsewhere).toMatchObject({ exitCode: 130, err: expect.stringContaining('interrupted by another client') });
    const signals = new EventEmitter();
    const here = await runWith(
      async function* (fake) {
        const asked = once(fake, 'interrupt');
        signals.emit('SIGINT');
        await asked;
        yield interrupted;
      },
      { signals },
    );
    expect(here).toMatchObject({ exitCode: 130, err: 'KeyboardInterrupt\n' });
  });

  it('prints one event per line with --json, the result last', async () => {
    const { out } = await runWith(
      async function* () {
        yield { type: 'stdout', text: 'a\nb\n' };
        yield { ...ok, value: 2n ** 64n, repr: '18446744073709551616' };
      },
      { json: true },
    );
    const lines = out.trimEnd().split('\n');
    expect(lines[0]).toBe('{"type":"stdout","text":"a\\nb\\n"}');
    expect(lines[1]).toContain('"value":18446744073709551616');
    expect(lines).toHaveLength(2);
  });
});

const folder = mkdtempSync(join(tmpdir(), 'cella-source-'));
afterAll(() => rmSync(folder, { recursive: true }));
const nothing = Readable.from([]);

function file(name: string, bytes: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

describe('readSource', () => {
  it('reads a file, without its byte order mark', async () => {
    expect(await readSource({ kind: 'file', path: file('a.py', '\ufeffprint("é")\n') }, nothing)).toBe('print("é")\n');
  });

  it('reads all of stdin', async () => {
    const bytes = Buffer.from('print("é")');
    const stdin = Readable.from([bytes.subarray(0, 8), bytes.subarray(8)]);
    expect(await readSource({ kind: 'stdin' }, stdin)).toBe('print("é")');
  });

  it.each([
    ['missing.py', 'does not exist'],
    ['.', 'is a folder'],
    ['a.py/b.py', 'does not exist'],
  ])('reports that %s %s', async (name, problem) => {
    file('a.py', '');
    await expect(readSource({ kind: 'file', path: join(folder, name) }, nothing)).rejects.toThrow(problem);
  });

  it('refuses what is not UTF-8', async () => {
    const path = file('latin.py', Uint8Array.of(0x22, 0xe9, 0x22));
    await expect(readSource({ kind: 'file', path }, nothing)).rejects.toThrow('is not UTF-8');
  });
});
