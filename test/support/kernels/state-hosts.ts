/** Starts hosts that are driven from here, and can be killed. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ResultEvent, Session, SessionOptions } from '../../../src/index.ts';

const program = fileURLToPath(new URL('state-host.ts', import.meta.url));

type Answer = { readonly value?: unknown; readonly error?: { readonly code: string; readonly message: string } };

export class RemoteHost implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #lines: AsyncIterator<string>;
  #last: Promise<unknown>;

  /** `around` is a command that runs the one after it, such as `unshare`. */
  constructor(around: readonly string[] = []) {
    const [command = '', ...args] = [...around, process.execPath, program];
    this.#process = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#process.stdin?.on('error', () => {}); // it may be killed before it reads
    this.#exited = once(this.#process, 'exit');
    if (!this.#process.stdout) throw new Error('the host has no stdout');
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
    this.#last = this.#lines.next();
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  async open(options: SessionOptions): Promise<{ pid: number }> {
    return (await this.call('open', options)) as { pid: number };
  }

  async run(code: string, options: object = {}): Promise<ResultEvent> {
    return (await this.call('run', code, options)) as ResultEvent;
  }

  /** Calls a method of its session; one call after the other. Rejects with what it was answered. */
  async call(method: keyof Session | 'open', ...words: unknown[]): Promise<unknown> {
    const before = this.#last;
    const answer = before.then(() => {
      this.#process.stdin?.write(`${JSON.stringify({ call: method, with: words })}\n`);
      return this.#next();
    });
    this.#last = answer.catch(() => {}); // told to whoever called
    const { value, error } = await answer;
    if (error) throw Object.assign(new Error(error.message), error);
    return value;
  }

  async #next(): Promise<Answer> {
    const { value, done } = await this.#lines.next();
    if (done) throw Object.assign(new Error('the host has ended'), { code: 'HOST_ENDED' });
    return JSON.parse(value);
  }

  /** At once, whatever it does. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#exited;
  }

  /** Lets it close its session and end by itself. */
  async end(): Promise<void> {
    this.#process.stdin?.end();
    await this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
