/** The bytes of an enclosed program as streams of Node's: a reader that waits makes the program wait. */

import { Readable, Writable } from 'node:stream';
import type { ByteSink, ByteSource } from './enclosure-port.ts';

export function readableOf(source: ByteSource): Readable {
  let begun = false;
  const stream: Readable = new Readable({
    read() {
      if (begun) return source.resume();
      begun = true;
      source.read(
        // A chunk is valid during this call alone.
        (chunk) => stream.push(Buffer.from(chunk)),
        () => stream.push(null),
      );
    },
    destroy(error, done) {
      source.close();
      done(error);
    },
  });
  return stream;
}

export function writableOf(sink: ByteSink): Writable {
  return new Writable({
    write(chunk: Uint8Array, _encoding, done) {
      sink.write(chunk).then(() => done(), done);
    },
    final(done) {
      sink.end();
      done();
    },
  });
}
