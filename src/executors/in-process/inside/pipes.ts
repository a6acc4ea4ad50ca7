/** Pipes of the code: a read of an empty one waits, as everywhere, until an interrupt ends it. */

import type { Wires } from '../wires.ts';
import { type Emscripten, Errno } from './emscripten.ts';
import { waitUntil } from './waiting.ts';

const O_NONBLOCK = 0o4000;

/** `reader` is the reading end of any pipe: all of them share how they are read. */
export function makePipesWait(module: Emscripten, wires: Wires, reader: number): void {
  const { FS } = module;
  const ops = FS.getStream(reader)?.stream_ops;
  const read = ops?.read;
  if (!ops || !read) throw new Error('Pyodide has no pipes');
  ops.read = (stream, buffer, offset, length, position) => {
    try {
      return read(stream, buffer, offset, length, position);
    } catch (error) {
      const empty = error instanceof FS.ErrnoError && 'errno' in error && error.errno === Errno.EAGAIN;
      if (!empty || (stream.flags & O_NONBLOCK) !== 0) throw error;
      // There is no other thread that could write to it meanwhile.
      waitUntil(wires, () => false);
      throw new FS.ErrnoError(Errno.EINTR);
    }
  };
}
