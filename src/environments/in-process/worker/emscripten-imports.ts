/** Replaces imports of the interpreter whose answer by Pyodide is not the right one here: poll and memory growth. */

import { type SharedMemory, waitUntil } from '../shared-memory.ts';
import { type Emscripten, Errno, type Imports } from './emscripten.ts';

const PAGE = 65536;
const POLLERR = 8;
const POLLHUP = 16;
const POLLNVAL = 32;
const ALWAYS = POLLERR | POLLHUP | POLLNVAL;
/** How much is taken beyond what is asked for, so that not every allocation has to ask. */
const AHEAD = 1.2;

export function adaptImports(
  imports: Imports,
  module: Emscripten,
  sharedMemory: SharedMemory,
  memoryBytes: number,
): void {
  const { env } = imports;
  if (!env) throw new Error('Pyodide asks for its surroundings by another name than env');
  replace(env, '__syscall_poll', (list, count, timeoutMs) => poll(module, sharedMemory, list, count, timeoutMs));
  replace(env, 'emscripten_resize_heap', (bytes) => grow(module, sharedMemory, bytes >>> 0, memoryBytes));
  // It would start a shell on the host.
  replace(env, '_emscripten_system', () => -Errno.ENOSYS);
}

/** A version of Pyodide that asks for something else must not run as if nothing were. */
function replace(env: Imports[string], name: string, answer: (...args: [number, number, number]) => number): void {
  if (typeof env[name] !== 'function') throw new Error(`Pyodide does not ask for ${name}`);
  env[name] = answer as (...args: number[]) => number;
}

/** As poll(2): Emscripten's own never waits, and does not tell of descriptors that are closed. */
function poll(module: Emscripten, sharedMemory: SharedMemory, list: number, count: number, timeoutMs: number): number {
  let ready = 0;
  const look = (): boolean => {
    ready = 0;
    for (let at = list >>> 0, left = count; left > 0; left--, at += 8) {
      const wanted = (module.HEAP16[(at + 4) >>> 1] ?? 0) | ALWAYS;
      const found = flagsOf(module, module.HEAP32[at >>> 2] ?? -1) & wanted;
      module.HEAP16[(at + 6) >>> 1] = found;
      if (found !== 0) ready++;
    }
    return ready > 0;
  };
  if (timeoutMs === 0) {
    look();
    return ready;
  }
  return waitUntil(sharedMemory, look, timeoutMs) === 'signal' ? -Errno.EINTR : ready;
}

function flagsOf(module: Emscripten, fd: number): number {
  if (fd < 0) return 0;
  const stream = module.FS.getStream(fd);
  if (!stream) return POLLNVAL;
  return stream.stream_ops.poll ? stream.stream_ops.poll(stream) : 5;
}

function grow(module: Emscripten, sharedMemory: SharedMemory, bytes: number, most: number): number {
  if (bytes > most) {
    sharedMemory.add('refused', 1);
    return 0;
  }
  const wanted = Math.min(most, Math.max(bytes, module.HEAPU8.length * AHEAD));
  if (module.growMemory(Math.ceil(wanted / PAGE) * PAGE) === undefined) return 0;
  sharedMemory.set('heap', module.HEAPU8.length);
  return 1;
}
