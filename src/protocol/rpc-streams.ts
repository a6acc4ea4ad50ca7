/** The two byte streams that an RpcPeer reads and writes, with backpressure. */

import type { Readable, Writable } from 'node:stream';
import { CellaError } from './errors.ts';

export interface RpcPort {
  /** Read once, to its end. */
  readonly input: AsyncIterable<Uint8Array>;
  /** Returns a promise if the caller should wait for room. It rejects if nobody reads any more. */
  write(text: string): Promise<void> | undefined;
  /** Closes both directions. Idempotent. */
  close(): void;
}

/** Writes to a stream with backpressure. Lines of one tick go out in one system call. */
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
    broken ??= new CellaError('RUNNER_GONE', 'The other side of the connection does not read any more.', { cause });
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

/** For the stdin and stdout of a child, or of this process. */
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
