/** A Python program in WebAssembly that answers lines of text, for a host without Python. */

import type { Worker } from 'node:worker_threads';
import { kernelPackage } from '../../interpreter/package-file.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { HelperTask, WorkerMessage } from './shared-memory.ts';
import { findPyodide, startWorker, terminateWorker } from './worker-client.ts';

const START_TIMEOUT_MS = 60_000;

type TextAnswer =
  | { readonly kind: 'reply'; readonly line: string }
  | { readonly kind: 'gone' | 'late'; readonly reason: string };

export class TextProgram {
  readonly #worker: Worker;
  #alive = true;
  #gone = 'its worker ended';
  #onAnswer: ((answer: TextAnswer) => void) | undefined;

  private constructor(worker: Worker) {
    this.#worker = worker;
    worker.on('message', (message: WorkerMessage) => {
      if (message !== null && 'line' in message) this.#onAnswer?.({ kind: 'reply', line: message.line });
      if (message !== null && 'problem' in message) this.#gone = message.problem;
    });
    worker.on('error', (error) => {
      this.#gone = error.message;
    });
    worker.once('exit', () => {
      this.#alive = false;
      this.#onAnswer?.({ kind: 'gone', reason: this.#gone });
    });
  }

  /** Runs `program` once, with a `__name__` other than `__main__`. Its `reply(text)` then answers. */
  static async start(program: string): Promise<TextProgram> {
    const { folder, lock, wasm } = await findPyodide();
    const common = { pyodide: folder, lock, wasm, sources: kernelPackage(), preload: [] };
    const task: HelperTask = { kind: 'program', ...common, program };
    const started = new TextProgram(startWorker(task));
    const ready = await started.#answer(START_TIMEOUT_MS);
    if (ready.kind === 'reply') return started;
    await started.end();
    throw new CellaError('TEMPLATE_FAILED', `Pyodide could not be started: ${ready.reason}.`);
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** One request at a time. If the answer is late, the caller must end the program. */
  ask(text: string, timeoutMs: number): Promise<TextAnswer> {
    this.#worker.postMessage(text);
    return this.#answer(timeoutMs);
  }

  /** Idempotent. */
  async end(): Promise<void> {
    if (this.#alive) await terminateWorker(this.#worker);
  }

  async #answer(timeoutMs: number): Promise<TextAnswer> {
    if (!this.#alive) return { kind: 'gone', reason: this.#gone };
    const { promise, resolve } = Promise.withResolvers<TextAnswer>();
    this.#onAnswer = resolve;
    // Between two requests it does not keep the host alive.
    this.#worker.ref();
    const timer = setTimeout(() => resolve({ kind: 'late', reason: `it took longer than ${timeoutMs} ms` }), timeoutMs);
    const answer = await promise;
    clearTimeout(timer);
    this.#onAnswer = undefined;
    this.#worker.unref();
    return answer;
  }
}
