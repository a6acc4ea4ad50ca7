/** Keeps stdout for the protocol: whatever else in this process writes there is sent to stderr. */

import { Console } from 'node:console';
import { Writable } from 'node:stream';

export interface Streams {
  readonly stdout: Writable;
  readonly stderr: Writable;
}

/** Gives the one stream that still reaches stdout. */
export function takeStdout({ stdout, stderr }: Streams): Writable {
  const write = stdout.write.bind(stdout);
  const own = new Writable({
    decodeStrings: false,
    write: (chunk: string | Uint8Array, _encoding, done) => void write(chunk, (error) => done(error ?? null)),
  });
  stdout.on('error', (error) => own.destroy(error));
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write;
  globalThis.console = new Console({ stdout: stderr, stderr });
  return own;
}
