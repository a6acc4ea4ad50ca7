/** One helper process: a line in, a line out, with a bound on time and length. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { endsAfterKill } from '../../lib/process-end.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Answer, ReaderHelper } from './reader-helper.ts';

type Child = ChildProcessByStdio<Writable, Readable, null>;

const START_MS = 15_000;
const MOST_REPLY_BYTES = 4 * 1024 * 1024;

export class ReaderProcess implements ReaderHelper {
  readonly #child: Child;
  readonly #exit: Promise<string>;
  #alive = true;
  #text = '';
  #hear: ((answer: Answer) => void) | undefined;

  /** Resolves when it has given up its rights and waits for a source. */
  static async start(python: string, program: string): Promise<ReaderProcess> {
    // The program goes by value: the user that it becomes may not read the folder that it lies in.
    const child = spawn(python, ['-I', '-S', '-B', '-X', 'utf8', '-c', program], {
      cwd: '/',
      env: {},
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const started = new ReaderProcess(child);
    const ready = await started.#answer(START_MS);
    if (ready.kind === 'reply' && ready.line === 'ready') return started;
    await started.end();
    const reason = ready.kind === 'reply' ? 'it answered as no reader does' : ready.reason;
    throw new CellaError('PYTHON_NOT_FOUND', `${python} did not start to read skills: ${reason}.`);
  }

  private constructor(child: Child) {
    this.#child = child;
    this.#exit = new Promise((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) => resolve(signal ? `it was ended by ${signal}` : `it exited with ${code}`));
    });
    void this.#exit.then((how) => {
      this.#alive = false;
      this.#hear?.({ kind: 'gone', reason: `the reader went away, ${how}` });
    });
    child.stdout.setEncoding('utf8');
    child.stdout.on('data', (chunk: string) => this.#take(chunk));
    // A helper that has ended is seen by its exit.
    child.stdin.on('error', () => undefined);
    child.stdout.on('error', () => undefined);
    this.#hold(false);
  }

  get alive(): boolean {
    return this.#alive;
  }

  async ask(source: string, timeoutMs: number): Promise<Answer> {
    this.#text = '';
    const seconds = Math.ceil(timeoutMs / 1000) + 1;
    this.#child.stdin.write(`${JSON.stringify({ source, seconds })}\n`);
    return await this.#answer(timeoutMs);
  }

  /** May be called again. */
  async end(): Promise<void> {
    if (!this.#alive) return;
    // Whoever waits for its end waits here, also where nothing else keeps the host from ending.
    this.#hold(true);
    this.#child.kill('SIGKILL');
    await endsAfterKill(this.#exit, `The reader of skills (process ${this.#child.pid})`);
  }

  async #answer(timeoutMs: number): Promise<Answer> {
    if (!this.#alive) return { kind: 'gone', reason: `the reader went away, ${await this.#exit}` };
    this.#hold(true);
    const { promise, resolve } = Promise.withResolvers<Answer>();
    this.#hear = resolve;
    const timer = setTimeout(() => resolve({ kind: 'late', reason: `it took longer than ${timeoutMs} ms` }), timeoutMs);
    const answer = await promise;
    clearTimeout(timer);
    this.#hear = undefined;
    this.#hold(false);
    return answer;
  }

  #take(chunk: string): void {
    this.#text += chunk;
    const end = this.#text.indexOf('\n');
    if (end >= 0) this.#hear?.({ kind: 'reply', line: this.#text.slice(0, end) });
    else if (this.#text.length > MOST_REPLY_BYTES) this.#hear?.({ kind: 'flood', reason: 'its reading is too long' });
  }

  /** A helper that waits for work does not keep the host from ending. */
  #hold(needed: boolean): void {
    const child = this.#child;
    for (const part of [child, child.stdin, child.stdout]) {
      if (needed) (part as { ref?(): void }).ref?.();
      else (part as { unref?(): void }).unref?.();
    }
  }
}
