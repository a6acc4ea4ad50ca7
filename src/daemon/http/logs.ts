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
    periodicFlush: FLUSH_MS,
    maxLength: MOST_BUFFERED_BYTES,
    mode: 0o600,
    append: true,
  });
  stream.on('error', () => {}); // logs that nobody takes are no reason to end
  return { log: makeLogger(level, stream), flush: () => flushed(stream) };
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
