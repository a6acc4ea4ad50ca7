/**
 * The process that does the file work of a host that runs as root. One process serves all sessions; it starts with the first
 * request and again after it ends. See python/cella_kernel/files/broker.py.
 *
 * Each user has a queue here (file-limits.ts), and the process gets as many requests at a time as it has threads. If a request
 * is stuck in a file system, only that request fails: running requests finish in the same process, and new ones go to a new
 * process.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { findPython } from '../../interpreter/find-python.ts';
import { kernelPackage } from '../../interpreter/package-file.ts';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { LineSplitter } from '../../lib/line-splitter.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { errorOf, folderReplaced } from './file-paths.ts';

/** Measured from the start of a request. No request takes this long on a working file system. */
const DEADLINE_MS = 30_000;
/** The broker's threads, and how many of them one user may occupy: three users at their limit still leave some for others. */
const THREADS = 16;
const THREADS_EACH = 4;
/** Brokers that take no new requests and finish the work they hold. */
const MOST_LEAVING = 2;
/** A page of the longest possible names takes half of this. */
const MOST_LINE_BYTES = 1024 * 1024;

const Answer = z.union([
  z.object({ id: z.int(), error: z.string(), message: z.string() }),
  z.object({ id: z.int(), result: z.unknown() }),
]);

interface Request {
  readonly op: string;
  readonly args: object;
  /** The user that the request counts for. */
  readonly whose: string;
  /** The files and the rights to use. A request without it is about something that only this broker holds. */
  readonly root?: object;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

interface Waiting extends Pending {
  readonly request: Request;
}

interface Begun extends Pending {
  readonly whose: string;
  readonly timer: NodeJS.Timeout;
}

/** A request past its deadline. */
interface LateRequest {
  readonly whose: string;
  /** Call when the request's thread has returned. */
  over(): void;
}

interface BrokerParts {
  readonly child: Pick<ChildProcess, 'kill' | 'on'>;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Called when the broker takes no more new requests. */
  readonly onEnd: () => void;
}

/** The broker did nothing, so another one can take the request. */
export class RequestNotStarted extends CellaError {
  constructor() {
    super('STORAGE_FAILED', 'The file broker ended before it handled the request.');
  }
}

/** A request without an answer. It occupies its user's turn until `over` resolves. */
export class RequestStuck extends CellaError {
  readonly over: Promise<void>;

  constructor(over: Promise<void>) {
    const message = `The files could not be accessed within ${DEADLINE_MS / 1000} s: the machine is busy, or a file system does not answer.`;
    super('DEADLINE_EXCEEDED', message, {
      advice: 'Try again. If that does not help, check the disks of the server.',
    });
    this.over = over;
  }
}

export class FileBroker {
  readonly #child: BrokerParts['child'];
  readonly #stdin: Writable;
  readonly #onEnd: () => void;
  readonly #begun = new Map<number, Begun>();
  readonly #stuck = new Map<number, LateRequest>();
  #waiting: Waiting[] = [];
  #asked = 0;
  /** Running operations of several requests that must finish in this broker. */
  #held = 0;
  /** Set once a request is stuck: new requests go to another broker. */
  #leaving = false;
  readonly #lines = new LineSplitter(MOST_LINE_BYTES);
  #ended: Error | undefined;

  constructor({ child, stdin, stdout, onEnd }: BrokerParts) {
    this.#child = child;
    this.#stdin = stdin;
    this.#onEnd = onEnd;
    // The broker does not keep this process alive; pending requests do, with their timers.
    for (const one of [child, stdin, stdout]) if ('unref' in one && typeof one.unref === 'function') one.unref();
    stdin.on('error', (error) => this.#end(error));
    child.on('error', (error) => this.#end(error));
    child.on('exit', () => {
      this.#end(new Error('it has ended'));
      for (const { over } of this.#stuck.values()) over();
    });
    stdout.on('error', (error) => this.#end(error));
    stdout.on('data', (chunk: Buffer) => this.#read(chunk));
  }

  get alive(): boolean {
    return this.#ended === undefined;
  }

  async ask<S extends z.ZodType>(request: Request, answer: S): Promise<z.infer<S>> {
    if (this.#ended) throw request.root ? new RequestNotStarted() : gone(this.#ended);
    if (this.#leaving && request.root) throw new RequestNotStarted();
    if (this.#isStuck(request.whose)) throw gone(allStuck());
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.push({ request, resolve, reject });
    this.#beginNext();
    return answer.parse(await promise);
  }

  /** A broker that is about to end waits until the returned function is called, for an operation of several requests. */
  hold(): () => void {
    this.#held++;
    return () => {
      this.#held--;
      this.#endIfLeft();
    };
  }

  close(fd: number): void {
    if (!this.#ended) this.#write({ id: ++this.#asked, op: 'close', fd });
  }

  /** Ends the broker even if it holds descriptors. */
  stop(why: Error): void {
    if (!this.#ended) this.#kill(why);
  }

  #beginNext(): void {
    while (this.#begun.size + this.#stuck.size < THREADS) {
      const at = this.#waiting.findIndex(({ request }) => this.#threadsOf(request.whose) < THREADS_EACH);
      const [next] = at < 0 ? [] : this.#waiting.splice(at, 1);
      if (!next) return;
      const id = ++this.#asked;
      const { request, resolve, reject } = next;
      const { whose, ...sent } = request;
      this.#begun.set(id, { whose, resolve, reject, timer: setTimeout(() => this.#late(id), DEADLINE_MS) });
      this.#write({ id, ...sent });
    }
  }

  #threadsOf(whose: string): number {
    const isTheirs = (one: { readonly whose: string }) => one.whose === whose;
    return this.#begun.values().filter(isTheirs).toArray().length + this.#stuckOf(whose);
  }

  #stuckOf(whose: string): number {
    return this.#stuck
      .values()
      .filter((one) => one.whose === whose)
      .toArray().length;
  }

  /** Whether all of the user's threads are blocked until the file system answers. */
  #isStuck(whose: string): boolean {
    return this.#stuckOf(whose) >= THREADS_EACH;
  }

  /** The request's thread is blocked until the file system answers. */
  #late(id: number): void {
    const late = this.#begun.get(id);
    if (!late) return;
    this.#begun.delete(id);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#stuck.set(id, { whose: late.whose, over: resolve });
    late.reject(new RequestStuck(promise));
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) {
      if (one.request.root) one.reject(new RequestNotStarted());
      // Such a request must run in this broker and would wait forever.
      else if (this.#isStuck(one.request.whose)) one.reject(gone(allStuck()));
      else this.#waiting.push(one);
    }
    if (this.#stuck.size >= THREADS) this.#kill(allStuck());
    else if (!this.#leaving) {
      this.#leaving = true;
      this.#onEnd();
    }
  }

  /** Ends a broker that takes no new requests as soon as it holds nothing. */
  #endIfLeft(): void {
    if (this.#leaving && this.#held === 0) this.#kill(new Error('a request was stuck in it'));
  }

  #kill(why: Error): void {
    this.#end(why);
    this.#child.kill('SIGKILL');
  }

  #write(request: object): void {
    this.#stdin.write(`${JSON.stringify(request)}\n`);
  }

  #read(chunk: Buffer): void {
    for (const { kind, bytes } of this.#lines.push(chunk)) {
      if (kind === 'cut') this.#kill(new Error('its answer is too long'));
      else this.#answered(Buffer.from(bytes).toString());
    }
  }

  #answered(line: string): void {
    const answer = Answer.safeParse(tryParseJson(line)).data;
    if (!answer) {
      this.#kill(new Error('its answer is invalid'));
      return;
    }
    this.#stuck.get(answer.id)?.over();
    this.#stuck.delete(answer.id);
    const begun = this.#begun.get(answer.id);
    if (begun) {
      this.#begun.delete(answer.id);
      clearTimeout(begun.timer);
      if (!('error' in answer)) begun.resolve(answer.result);
      else
        begun.reject(
          answer.error === 'EREPLACED' ? folderReplaced(answer.message) : errorOf(answer.error, answer.message),
        );
    }
    this.#beginNext();
  }

  #end(why: Error): void {
    if (this.#ended) return;
    this.#ended = why;
    this.#onEnd();
    for (const { reject, timer } of this.#begun.values()) {
      clearTimeout(timer);
      reject(gone(why));
    }
    for (const { request, reject } of this.#waiting) reject(request.root ? new RequestNotStarted() : gone(why));
    this.#begun.clear();
    this.#waiting = [];
  }
}

/** The current broker, and earlier ones that are finishing their work. */
export class FileBrokers {
  readonly #start: (onEnd: () => void) => Promise<FileBroker>;
  #current: Promise<FileBroker> | undefined;
  #leaving: FileBroker[] = [];

  constructor(start: (onEnd: () => void) => Promise<FileBroker>) {
    this.#start = start;
  }

  /** Returns the running broker, or starts another. */
  get(): Promise<FileBroker> {
    if (!this.#current) {
      const started = this.#start(() => this.#leave(started));
      started.catch(() => this.#leave(started));
      this.#current = started;
    }
    return this.#current;
  }

  #leave(started: Promise<FileBroker>): void {
    if (this.#current !== started) return;
    this.#current = undefined;
    started.then((broker) => this.#bound(broker)).catch(() => {}); // the request that started it gets the error
  }

  /**
   * Limits the earlier brokers: an upload lasts as long as its sender likes. Stops the oldest ones if requests keep getting
   * stuck.
   */
  #bound(broker: FileBroker): void {
    this.#leaving = [...this.#leaving, broker].filter(({ alive }) => alive);
    const most = new Error(`a request was stuck in it, and in ${MOST_LEAVING} others after it`);
    while (this.#leaving.length > MOST_LEAVING) this.#leaving.shift()?.stop(most);
  }
}

const current = new FileBrokers(start);

export function fileBroker(): Promise<FileBroker> {
  return current.get();
}

async function start(onEnd: () => void): Promise<FileBroker> {
  const python = await findPython();
  // The broker needs nothing from this process's environment, which can contain secrets.
  const options = JSON.stringify({ threads: THREADS });
  const child = spawn(python, ['-I', '-S', '-X', 'utf8', kernelPackage(), 'files', options], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {},
    cwd: '/',
  });
  if (child.pid === undefined) {
    const cause = await new Promise((resolve) => child.once('error', resolve));
    throw gone(cause);
  }
  return new FileBroker({ child, stdin: child.stdin, stdout: child.stdout, onEnd });
}

function allStuck(): Error {
  return new Error('all its threads for this are stuck');
}

function gone(cause: unknown): CellaError {
  const why = messageOf(cause);
  return new CellaError('STORAGE_FAILED', `The file broker did not answer: ${why}.`, {
    cause,
  });
}
