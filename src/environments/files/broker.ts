/**
 * The process that does the file work of a host that runs as root: one for all sessions, started with the first request
 * and again after it has ended. See python/cella_kernel/file_broker.py.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { findPython, kernelPackage } from '../../sandbox/python.ts';
import { errorOf, replaced } from './path.ts';

/** No request takes this long on a file system that works. */
const DEADLINE_MS = 30_000;
const MOST_PENDING = 1024;

const Answer = z.union([
  z.object({ id: z.int(), error: z.string(), message: z.string() }),
  z.object({ id: z.int(), result: z.unknown() }),
]);

interface Pending {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  readonly timer: NodeJS.Timeout;
}

interface BrokerParts {
  readonly child: ChildProcess;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly pid: number;
  readonly onEnd: () => void;
}

const ENDING = new Set(['commit', 'discard']);

export class Broker {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #stdin: Writable;
  readonly #onEnd: () => void;
  readonly #pending = new Map<number, Pending>();
  #asked = 0;
  #buffered: Buffer[] = [];
  #over: Error | undefined;

  constructor({ child, stdin, stdout, pid, onEnd }: BrokerParts) {
    this.#child = child;
    this.pid = pid;
    this.#stdin = stdin;
    this.#onEnd = onEnd;
    // It keeps no process alive that has nothing else to do: whoever waits for an answer has a timer.
    for (const one of [child, stdin, stdout]) if ('unref' in one && typeof one.unref === 'function') one.unref();
    stdin.on('error', (error) => this.#end(error));
    child.on('error', (error) => this.#end(error));
    child.on('exit', () => this.#end(new Error('it has ended')));
    stdout.on('error', (error) => this.#end(error));
    stdout.on('data', (chunk: Buffer) => this.#read(chunk));
  }

  get alive(): boolean {
    return this.#over === undefined;
  }

  /** `root`: whose files, and with what rights. */
  async ask<S extends z.ZodType>(op: string, root: object, args: object, answer: S): Promise<z.infer<S>> {
    if (this.#over) throw gone(this.#over);
    // What ends something is never refused: it would stay open.
    if (this.#pending.size >= MOST_PENDING && !ENDING.has(op)) {
      throw new CellaError('RATE_LIMITED', `${MOST_PENDING} requests for files wait already.`);
    }
    const id = ++this.#asked;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const late = () => {
      this.#end(new Error(`no answer within ${DEADLINE_MS / 1000} s`));
      this.#child.kill('SIGKILL');
    };
    this.#pending.set(id, { resolve, reject, timer: setTimeout(late, DEADLINE_MS) });
    this.#write({ id, op, root, args });
    return answer.parse(await promise);
  }

  /** Lets go of a descriptor. */
  close(fd: number): void {
    if (!this.#over) this.#write({ id: ++this.#asked, op: 'close', fd });
  }

  #write(request: object): void {
    this.#stdin.write(`${JSON.stringify(request)}\n`);
  }

  #read(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.#buffered, rest.subarray(0, end)]).toString();
      this.#buffered = [];
      rest = rest.subarray(end + 1);
      this.#answered(line);
    }
    if (rest.length > 0) this.#buffered.push(rest);
  }

  #answered(line: string): void {
    const answer = Answer.parse(JSON.parse(line));
    const pending = this.#pending.get(answer.id);
    if (!pending) return;
    this.#pending.delete(answer.id);
    clearTimeout(pending.timer);
    if (!('error' in answer)) pending.resolve(answer.result);
    else
      pending.reject(answer.error === 'EREPLACED' ? replaced(answer.message) : errorOf(answer.error, answer.message));
  }

  #end(why: Error): void {
    this.#over ??= why;
    this.#onEnd();
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(gone(this.#over));
    }
    this.#pending.clear();
  }
}

let current: Promise<Broker> | undefined;

/** The one that there is, or another after that has ended. */
export function fileBroker(): Promise<Broker> {
  if (!current) {
    const started = start(() => {
      if (current === started) current = undefined;
    });
    started.catch(() => {
      if (current === started) current = undefined;
    });
    current = started;
  }
  return current;
}

async function start(onEnd: () => void): Promise<Broker> {
  const python = await findPython();
  // Nothing of this process's environment: it needs none, and holds no secret.
  const child = spawn(python, ['-I', '-S', '-X', 'utf8', kernelPackage(), 'files', '{}'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {},
    cwd: '/',
  });
  if (child.pid === undefined) {
    const cause = await new Promise((resolve) => child.once('error', resolve));
    throw gone(cause);
  }
  return new Broker({ child, stdin: child.stdin, stdout: child.stdout, pid: child.pid, onEnd });
}

function gone(cause: unknown): CellaError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('STORAGE_FAILED', `The process that reaches files of sessions did not answer: ${why}.`, {
    cause,
  });
}
