/** The two byte streams that an RpcPeer reads and writes, with backpressure. */

import type { Readable, Writable } from 'node:stream';
import { CellaError } from './errors.ts';

export interface RpcPort {
  /** To the end of the other side. It is read once. */
  readonly input: AsyncIterable<Uint8Array>;
  /** A promise where the caller should wait until there is room; it rejects where nobody reads any more. */
  write(text: string): Promise<void> | undefined;
  /** Ends both directions; idempotent. */
  close(): void;
}

/** Writes to a stream with backpressure. What is said in one turn of the event loop goes in one system call. */
export function writerOf(output: Writable): RpcPort['write'] {
  let room: PromiseWithResolvers<void> | undefined;
  let broken: CellaError | undefined;
  let corked = false;

  const settle = (): void => {
    const waiting = room;
    room = undefined;
    if (broken) waiting?.reject(broken);
    else waiting?.resolve();
  };
  const fail = (cause?: unknown): void => {
    broken ??= new CellaError('RUNNER_GONE', 'Nobody reads at the other end of the connection.', { cause });
    settle();
  };
  output.on('drain', settle);
  output.on('error', fail);
  output.on('close', () => fail());

  const cork = (): void => {
    if (corked) return;
    corked = true;
    output.cork();
    process.nextTick(() => {
      corked = false;
      output.uncork();
    });
  };

  return (text) => {
    if (broken) return Promise.reject(broken);
    cork();
    if (output.write(text)) return undefined;
    room ??= Promise.withResolvers<void>();
    return room.promise;
  };
}

/** Over a child's stdin and stdout, or one's own, or a socket that is both. */
export function portOfStreams(input: Readable, output: Writable): RpcPort {
  return {
    input,
    write: writerOf(output),
    close() {
      output.end();
      input.destroy();
    },
  };
}
