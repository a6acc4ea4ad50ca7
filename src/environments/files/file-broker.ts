/**
 * The process that does the file work of a host that runs as root: one for all sessions, started with the first request
 * and again after it has ended. See python/cella_kernel/files/broker.py.
 *
 * It is sent as many requests at a time as it has threads; the others wait here, each user's in a line of its own
 * (turns.ts). A request that is stuck in a file system fails by itself: others go on where they are, and what has not begun goes to
 * a new process.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { findPython } from '../../interpreter/find-python.ts';
import { kernelPackage } from '../../interpreter/package-file.ts';
import { CellaError } from '../../protocol/errors.ts';
import { errorOf, folderReplaced } from './file-paths.ts';

/** From when it was begun. No request takes this long on a file system that works. */
const DEADLINE_MS = 30_000;
/** So many threads it has, and so many of them one user has: three users leave some for others, whatever they do. */
const THREADS = 16;
const THREADS_EACH = 4;
/** Of processes that are to go, and wait for works that must go on there. */
const MOST_LEAVING = 2;
/** A page of the longest names has half of this. */
const MOST_LINE_BYTES = 1024 * 1024;

const Answer = z.union([
  z.object({ id: z.int(), error: z.string(), message: z.string() }),
  z.object({ id: z.int(), result: z.unknown() }),
]);

interface Request {
  readonly op: string;
  readonly args: object;
  /** Who is asking. */
  readonly whose: string;
  /** Whose files, and with what rights. Without it: about something that this process holds, and no other. */
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

/** Past its deadline. */
interface Late {
  readonly whose: string;
  /** To be called when its thread has come back. */
  over(): void;
}

interface BrokerParts {
  readonly child: Pick<ChildProcess, 'kill' | 'on'>;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** It takes no new requests any more. */
  readonly onEnd: () => void;
}

/** Nothing was done: another process can be asked. */
export class NotBegun extends CellaError {
  constructor() {
    super('STORAGE_FAILED', 'The process that reaches files of sessions has ended before it came to the request.');
  }
}

/** A request without an answer. The turn that it has taken is its user's until `over`. */
export class Stuck extends CellaError {
  readonly over: Promise<void>;

  constructor(over: Promise<void>) {
    const message = `The files were not reached within ${DEADLINE_MS / 1000} s: the machine is busy, or a file system does not answer.`;
    super('DEADLINE_EXCEEDED', message, {
      advice: 'Try again. If that does not help, look at the disks of the server.',
    });
    this.over = over;
  }
}

export class FileBroker {
  readonly #child: BrokerParts['child'];
  readonly #stdin: Writable;
  readonly #onEnd: () => void;
  readonly #begun = new Map<number, Begun>();
  readonly #stuck = new Map<number, Late>();
  #waiting: Waiting[] = [];
  #asked = 0;
  /** Works that have begun here and must go on here. */
  #held = 0;
  /** Since something was stuck, new requests go to another process. */
  #leaving = false;
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #ended: Error | undefined;

  constructor({ child, stdin, stdout, onEnd }: BrokerParts) {
    this.#child = child;
    this.#stdin = stdin;
    this.#onEnd = onEnd;
    // It does not keep the process alive: requests that wait for an answer have a timer.
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
    if (this.#ended) throw request.root ? new NotBegun() : gone(this.#ended);
    if (this.#leaving && request.root) throw new NotBegun();
    if (this.#isStuck(request.whose)) throw gone(allStuck());
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.push({ request, resolve, reject });
    this.#beginNext();
    return answer.parse(await promise);
  }

  /** A work of several requests goes on until what is given is called: a process that is to go waits for it. */
  hold(): () => void {
    this.#held++;
    return () => {
      this.#held--;
      this.#endIfLeft();
    };
  }

  /** Lets go of a descriptor. */
  close(fd: number): void {
    if (!this.#ended) this.#write({ id: ++this.#asked, op: 'close', fd });
  }

  /** Ends it, whatever it holds. */
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

  /** Whether none of the user's threads comes back before the file system does. */
  #isStuck(whose: string): boolean {
    return this.#stuckOf(whose) >= THREADS_EACH;
  }

  /** The thread that has it does not come back before the file system does. */
  #late(id: number): void {
    const late = this.#begun.get(id);
    if (!late) return;
    this.#begun.delete(id);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#stuck.set(id, { whose: late.whose, over: resolve });
    late.reject(new Stuck(promise));
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) {
      if (one.request.root) one.reject(new NotBegun());
      // Whoever must go on here would wait for ever.
      else if (this.#isStuck(one.request.whose)) one.reject(gone(allStuck()));
      else this.#waiting.push(one);
    }
    if (this.#stuck.size >= THREADS) this.#kill(allStuck());
    else if (!this.#leaving) {
      this.#leaving = true;
      this.#onEnd();
    }
  }

  /** Once it is to go: as soon as nobody is left who must go on here. */
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
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.#buffered, rest.subarray(0, end)]).toString();
      this.#buffered = [];
      this.#bufferedBytes = 0;
      rest = rest.subarray(end + 1);
      this.#answered(line);
    }
    this.#bufferedBytes += rest.length;
    if (this.#bufferedBytes > MOST_LINE_BYTES) this.#kill(new Error('its answer is too long'));
    else if (rest.length > 0) this.#buffered.push(rest);
  }

  #answered(line: string): void {
    const answer = Answer.safeParse(parsed(line)).data;
    if (!answer) {
      this.#kill(new Error('its answer is no answer'));
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
    for (const { request, reject } of this.#waiting) reject(request.root ? new NotBegun() : gone(why));
    this.#begun.clear();
    this.#waiting = [];
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined; // which no answer is
  }
}

/** The process that is asked, and those before it that are still at work. */
export class Brokers {
  readonly #start: (onEnd: () => void) => Promise<FileBroker>;
  #current: Promise<FileBroker> | undefined;
  #leaving: FileBroker[] = [];

  constructor(start: (onEnd: () => void) => Promise<FileBroker>) {
    this.#start = start;
  }

  /** The one that there is, or another after that has ended. */
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

  /** An upload takes as long as its sender likes. Where requests are stuck again and again, the oldest ones are cut. */
  #bound(broker: FileBroker): void {
    this.#leaving = [...this.#leaving, broker].filter(({ alive }) => alive);
    const most = new Error(`a request was stuck in it, and in ${MOST_LEAVING} others after it`);
    while (this.#leaving.length > MOST_LEAVING) this.#leaving.shift()?.stop(most);
  }
}

const brokers = new Brokers(start);

export function fileBroker(): Promise<FileBroker> {
  return brokers.get();
}

async function start(onEnd: () => void): Promise<FileBroker> {
  const python = await findPython();
  // Nothing of this process's environment: it needs none, and holds no secret.
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
  return new Error('all threads that it has for this are stuck');
}

function gone(cause: unknown): CellaError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('STORAGE_FAILED', `The process that reaches files of sessions did not answer: ${why}.`, {
    cause,
  });
}
