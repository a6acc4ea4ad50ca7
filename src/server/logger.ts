/**
 * Structured logs: one JSON line per request, or readable lines if stderr is a terminal. They never contain a token, a code,
 * a cookie, a body or a query.
 * If the log cannot be written (a full disk, a pipe without a reader), lines are lost, but the server never waits.
 */

import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import { messageOf } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import type { LogLevel } from '../settings/settings-table.ts';

/** Lines are written in batches of this size, and at the latest after this time. No request waits for them. */
const GATHERED_BYTES = 4096;
const FLUSH_MS = 100;
/** Lines beyond this are dropped while nothing can be written. */
const MAX_BUFFERED_BYTES = 8 * 1024 * 1024;
/** The most that one write contains. */
const MAX_WRITE_BYTES = 1024 * 1024;
/** The pause after a failed write; doubled with each further failure. */
const MIN_RETRY_MS = 5;
const MAX_RETRY_MS = 1000;
/** How long the server's shutdown waits for a slow reader. */
const CLOSE_TIMEOUT_MS = 1000;
const STDERR = 2;
const WARN = 40;

/** The log can never be written again. */
const lostForGood = new Set(['EPIPE', 'EBADF', 'ECONNRESET']);
/** The reader is slow, and may still read. */
const slow = new Set(['EAGAIN', 'EBUSY', 'EINTR']);

export interface Logs {
  readonly log: Logger;
  /** Writes what can be written, and gives up soon if nothing can. Never rejects. */
  close(): Promise<void>;
}

export function openLogs(level: LogLevel, file?: string): Logs {
  const lines = new LogWriter(file === undefined ? openStderr() : openFile(file));
  const readable = file === undefined && isatty(STDERR);
  const stream = readable ? { write: (line: string) => lines.write(readableLine(line)) } : lines;
  const log = pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, stream);
  return { log, close: () => lines.close() };
}

/**
 * A JSON line as a person reads it: `15:39:54 POST /v1/sessions 201 60.2 ms (ada)`, `15:39:54 warn: msg key="value"`.
 * Paths and names in it come from clients, so control characters are escaped. Exported for its test.
 */
export function readableLine(line: string): string {
  const { level, time, pid: _pid, msg, err, ...fields }: Record<string, unknown> = JSON.parse(line);
  const at = new Date(String(time)).toTimeString().slice(0, 8);
  const name = pino.levels.labels[Number(level)] ?? String(level);
  const prefix = name === 'info' ? at : `${at} ${name}:`;
  if (msg === 'request' && 'method' in fields) {
    const { requestId: _id, from: _from, method, path, status, ms, user, ...more } = fields;
    const who = user === undefined ? '' : ` (${user})`;
    return `${escapeControls(`${prefix} ${method} ${path} ${status} ${ms} ms${who}${describeFields(more)}`)}\n`;
  }
  const stack = err instanceof Object && 'stack' in err ? String(err.stack).split('\n') : [];
  const lines = [`${prefix} ${msg ?? ''}${describeFields(fields)}`, ...stack.map((text) => `  ${text}`)];
  return lines.map((text) => `${escapeControls(text)}\n`).join('');
}

const describeFields = (fields: object): string =>
  Object.entries(fields)
    .map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
    .join('');

/** Also the characters that change the direction of text. */
const escapeControls = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`);

/** Exported for its test. */
export class LogWriter {
  readonly #fd: number;
  #lines: string[] = [];
  #bytes = 0;
  #dropped = 0;
  /** What is being written, and what is left of it after a part was. */
  #rest: Buffer | undefined;
  #writing = false;
  #closed = false;
  #retryMs = MIN_RETRY_MS;
  #timer: NodeJS.Timeout | undefined;
  #onSettled: ((failure: string | undefined) => void) | undefined;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(line: string): void {
    if (this.#closed) return;
    const bytes = Buffer.byteLength(line);
    if (this.#bytes + bytes > MAX_BUFFERED_BYTES) {
      this.#dropped += 1;
      return;
    }
    this.#lines.push(line);
    this.#bytes += bytes;
    if (this.#writing || this.#rest) return;
    if (this.#bytes >= GATHERED_BYTES) this.#next();
    else this.#after(FLUSH_MS);
  }

  async close(): Promise<void> {
    await this.#flush();
    clearTimeout(this.#timer);
    // A descriptor with a write under way stays: its number must not become another file's.
    if (this.#fd !== STDERR && !this.#writing) closeSync(this.#fd);
    this.#closed = true;
  }

  async #flush(): Promise<void> {
    const deadline = performance.now() + CLOSE_TIMEOUT_MS;
    while (this.#bytes > 0 || this.#rest || this.#dropped > 0) {
      const left = deadline - performance.now();
      if (left <= 0) return;
      const settled = Promise.withResolvers<string | undefined>();
      this.#onSettled = settled.resolve;
      // Only this timer keeps the process alive, so a hanging write does not.
      const timer = setTimeout(() => settled.resolve('late'), left);
      if (!this.#writing) this.#next();
      const failure = await settled.promise;
      clearTimeout(timer);
      if (failure !== undefined && !slow.has(failure)) return;
      if (failure !== undefined) await new Promise((resolve) => setTimeout(resolve, MIN_RETRY_MS));
    }
  }

  /** The timer runs only while lines wait, so an idle server does not wake up. */
  #after(ms: number): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => this.#next(), ms);
    this.#timer.unref();
  }

  #next(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing || this.#closed) return;
    this.#rest ??= this.#take();
    if (!this.#rest) return;
    this.#writing = true;
    write(this.#fd, this.#rest, (error, written) => {
      this.#writing = false;
      this.#settle(error, written);
    });
  }

  #settle(error: NodeJS.ErrnoException | null, written: number): void {
    const failure = error ? (error.code ?? 'UNKNOWN') : undefined;
    if (failure === undefined) {
      this.#retryMs = MIN_RETRY_MS;
      const rest = this.#rest?.subarray(written);
      this.#rest = rest && rest.length > 0 ? rest : undefined;
      if (this.#rest) this.#next();
      else if (this.#bytes > 0 || this.#dropped > 0) this.#after(this.#bytes >= GATHERED_BYTES ? 0 : FLUSH_MS);
    } else if (lostForGood.has(failure)) {
      this.#rest = undefined;
      this.#lines = [];
      this.#bytes = 0;
      this.#dropped = 0;
    } else {
      this.#after(this.#retryMs);
      this.#retryMs = Math.min(MAX_RETRY_MS, this.#retryMs * 2);
    }
    if (this.#rest && failure === undefined) return;
    this.#onSettled?.(failure);
    this.#onSettled = undefined;
  }

  #take(): Buffer | undefined {
    if (this.#dropped > 0 && this.#bytes < MAX_BUFFERED_BYTES / 2) {
      const msg = 'log lines were dropped: the log could not be written';
      const entry = { level: WARN, time: new Date().toISOString(), pid: process.pid, dropped: this.#dropped, msg };
      this.#dropped = 0;
      const line = `${JSON.stringify(entry)}\n`;
      this.#lines.push(line);
      this.#bytes += Buffer.byteLength(line);
    }
    let [count, bytes] = [0, 0];
    while (count < this.#lines.length && bytes < MAX_WRITE_BYTES) {
      bytes += Buffer.byteLength(this.#lines[count] ?? '');
      count += 1;
    }
    if (count === 0) return undefined;
    this.#bytes -= bytes;
    return Buffer.from(this.#lines.splice(0, count).join(''));
  }
}

/** One listener for all servers of this process. */
const ignoreError = (): void => {};

/** A pipe is written to through a descriptor of its own that does not block: a thread that waits in `write` cannot be ended. */
function openStderr(): number {
  // The reader may be gone. If stderr is a socket, accessing it here also makes it non-blocking.
  process.stderr.off('error', ignoreError).on('error', ignoreError);
  try {
    if (fstatSync(STDERR).isFile()) return STDERR;
    return openSync(`/proc/self/fd/${STDERR}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    // A socket cannot be opened by name; and if it is closed, nobody reads it.
    return STDERR;
  }
}

function openFile(path: string): number {
  try {
    const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
    return openSync(path, flags, 0o600);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new CellaError('INVALID_OPTIONS', `The log ${path} cannot be written: ${reason}.`, { cause });
  }
}
