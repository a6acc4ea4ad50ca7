/** Structured logs: one line of JSON a request. They never hold a token, a code, a cookie, a body or a query. */

import { type DestinationStream, destination, type Logger, pino } from 'pino';
import type { LogLevel } from '../../settings/serve-settings.ts';

export type { Logger } from 'pino';

/** Lines are written many at a time: no request waits for one, and none is later than this. */
const GATHERED_BYTES = 4096;
const FLUSH_MS = 100;
/** A reader of the logs that does not read loses lines, and never holds the daemon up. */
const MOST_BUFFERED_BYTES = 8 * 1024 * 1024;

export interface Logs {
  readonly log: Logger;
  flush(): void;
}

export function openLogs(level: LogLevel, file?: string): Logs {
  const stream = destination({
    dest: file ?? 2,
    sync: false,
    minLength: GATHERED_BYTES,
    maxLength: MOST_BUFFERED_BYTES,
    mode: 0o600,
    append: true,
  });
  stream.on('error', () => {}); // logs that nobody takes are no reason to end
  return { log: makeLogger(level, flushedSoon(stream)), flush: () => flushed(stream) };
}

/** A timer runs only while lines wait: a server that has nothing to tell sleeps. */
function flushedSoon(stream: ReturnType<typeof destination>): DestinationStream {
  let waitingBytes = 0;
  let armed = false;
  const arm = () => {
    if (armed) return;
    armed = true;
    setTimeout(flush, FLUSH_MS).unref();
  };
  const flush = () => {
    armed = false;
    if (waitingBytes > 0) stream.flush();
  };
  stream.on('write', (bytes: number) => {
    waitingBytes -= bytes;
  });
  stream.on('drop', (line: string) => {
    waitingBytes -= Buffer.byteLength(line);
  });
  // While one write is under way no other begins: what came meanwhile has its turn after it.
  stream.on('drain', () => {
    if (waitingBytes > 0) arm();
  });
  return {
    write(line) {
      waitingBytes += Buffer.byteLength(line);
      stream.write(line);
      arm();
    },
  };
}

function makeLogger(level: LogLevel, stream: DestinationStream): Logger {
  return pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, stream);
}

function flushed(stream: ReturnType<typeof destination>): void {
  try {
    stream.flushSync();
  } catch {
    // It is not open yet, or its reader has gone: there is nothing to be flushed to.
  }
}
