/** The kernel's files in Emscripten: descriptors over the shared memory, pipes whose reads block, and folders of the host. */

import type { MessagePort } from 'node:worker_threads';
import type { EnvironmentSpec } from '../../../protocol/environment-spec.ts';
import { KernelFd } from '../../../protocol/kernel-frames.ts';
import { READ_AT_ONCE_BYTES, type SharedMemory, type SharedRingBuffer, waitUntil } from '../shared-memory.ts';
import { type Emscripten, Errno, type FileSystem, type StreamOps } from './emscripten.ts';

const MAJOR = 80;
const READABLE = 1;
const WRITABLE = 4;
const READ_WRITE = 2;

export class EmscriptenDevices {
  readonly #module: Emscripten;
  readonly #memory: SharedMemory;
  readonly #host: MessagePort;
  #made = 0;

  constructor(module: Emscripten, sharedMemory: SharedMemory, host: MessagePort) {
    this.#module = module;
    this.#memory = sharedMemory;
    this.#host = host;
  }

  install(): void {
    const sharedMemory = this.#memory;
    this.#put('control', this.#control(), [KernelFd.control]);
    this.#put('stdout', this.#output(sharedMemory.pipe('stdout')), [KernelFd.stdout, 1]);
    this.#put('stderr', this.#output(sharedMemory.pipe('stderr')), [KernelFd.stderr, 2]);
    this.#put('unread-stdout', { poll: () => (sharedMemory.pipe('stdout').size > 0 ? READABLE : 0) }, [
      KernelFd.stdoutReader,
    ]);
    this.#put('unread-stderr', { poll: () => (sharedMemory.pipe('stderr').size > 0 ? READABLE : 0) }, [
      KernelFd.stderrReader,
    ]);
    this.#put('stdin', { poll: () => READABLE, read: () => 0 }, [0]);
    // There is no pid 1 to register with; the interrupt slot takes its place.
    this.#put('interrupts', this.#interrupts(), [KernelFd.registration]);
  }

  #put(name: string, ops: StreamOps, numbers: readonly number[]): void {
    const { FS } = this.#module;
    const device = FS.makedev(MAJOR, this.#made++);
    FS.registerDevice(device, ops);
    const path = `/dev/cella-${name}`;
    FS.mkdev(path, 0o600, device);
    const stream = FS.open(path, READ_WRITE);
    // Replaces Pyodide's streams at 0, 1 and 2, which lead to the host's own.
    for (const number of numbers) FS.dupStream(stream, number);
    FS.close(stream);
  }

  /** Notifies the host once until it has checked everything. */
  #notifyHost(word: 'notified' | 'outputNotified' = 'notified'): void {
    if (this.#memory.swap(word, 1) === 0) this.#host.postMessage(null);
  }

  #control(): StreamOps {
    const sharedMemory = this.#memory;
    const incoming = sharedMemory.pipe('toKernel');
    return {
      poll: () => WRITABLE | (incoming.size > 0 ? READABLE : 0),
      read: (_stream, buffer, offset, length) => {
        this.#wait(() => incoming.size > 0);
        const count = incoming.read(asBytes(buffer, offset, length));
        if (sharedMemory.get('crowded') !== 0) this.#notifyHost();
        return count;
      },
      write: (_stream, buffer, offset, length) => {
        const count = this.#write(sharedMemory.pipe('fromKernel'), asBytes(buffer, offset, length));
        this.#notifyHost();
        return count;
      },
    };
  }

  #output(pipe: SharedRingBuffer): StreamOps {
    return {
      poll: () => WRITABLE,
      read: () => 0,
      write: (_stream, buffer, offset, length) => {
        const count = this.#write(pipe, asBytes(buffer, offset, length));
        this.#notifyHost(pipe.size > READ_AT_ONCE_BYTES ? 'notified' : 'outputNotified');
        return count;
      },
    };
  }

  /** Without room the code waits, so that the memory never holds more than its size if the host does not read. */
  #write(pipe: SharedRingBuffer, data: Uint8Array): number {
    if (data.length === 0) return 0;
    let count = pipe.write(data);
    if (count === 0) {
      this.#notifyHost();
      this.#wait(() => {
        count = pipe.write(data);
        return count > 0;
      });
    }
    return count;
  }

  /**
   * Reads return the execution that an interrupt is for. Writes: `h` if it was seen; `a` or `k` with a number for an alarm or
   * an end.
   */
  #interrupts(): StreamOps {
    const sharedMemory = this.#memory;
    return {
      read: (_stream, buffer, offset, length) => {
        const word = new Uint8Array(new Uint32Array([sharedMemory.get('target')]).buffer).subarray(0, length);
        asBytes(buffer, offset, word.length).set(word);
        return word.length;
      },
      write: (_stream, buffer, offset, length) => {
        const bytes = asBytes(buffer, offset, length);
        if (bytes[0] === 0x68) sharedMemory.set('seen', sharedMemory.swap('target', 0));
        else if (length >= 5) {
          const number = new DataView(bytes.buffer, bytes.byteOffset + 1, 4).getUint32(0, true);
          sharedMemory.set(bytes[0] === 0x61 ? 'alarm' : 'killedBy', number);
          this.#notifyHost();
        }
        return length;
      },
    };
  }

  #wait(ready: () => boolean): void {
    // Python checks the signal, and retries if it raises nothing.
    if (waitUntil(this.#memory, ready) === 'signal') throw new this.#module.FS.ErrnoError(Errno.EINTR);
  }
}

function asBytes(buffer: Int8Array, offset: number, length: number): Uint8Array {
  return new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length);
}

const O_NONBLOCK = 0o4000;

/** `reader` is the read end of any pipe; all pipes share its operations. */
export function makePipesWait(module: Emscripten, sharedMemory: SharedMemory, reader: number): void {
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
      // No other thread could write to the pipe meanwhile.
      waitUntil(sharedMemory, () => false);
      throw new FS.ErrnoError(Errno.EINTR);
    }
  };
}

const CHANGES = ['mknod', 'rename', 'unlink', 'rmdir', 'symlink', 'setattr'] as const;
const WRITES = 0o3 | 0o100 | 0o1000 | 0o2000;

/** Mounts folders of the host, writable or read-only. */
export function mountFolders(
  module: Emscripten,
  spec: Pick<EnvironmentSpec, 'readable' | 'writable' | 'folder'>,
  movedTo: () => string | undefined,
): void {
  const { FS } = module;
  const { NODEFS } = FS.filesystems;
  const reading = readOnly(module);
  const folders = [
    ...spec.writable.map((folder) => ({ ...folder, type: NODEFS })),
    ...spec.readable.map((folder) => ({ ...folder, type: reading })),
  ].map(({ path, at = path, type }) => ({ path, at, type }));
  // Outer folders first, because inner ones are mounted over them.
  for (const { path, at, type } of folders.sort((one, other) => one.at.length - other.at.length)) {
    FS.mkdirTree(at);
    FS.mount(type, path === spec.folder.path ? movable(path, movedTo) : { root: path }, at);
  }
}

/** The key's folder gets its path only when a session takes the kernel, so each lookup uses the current path. */
function movable(path: string, movedTo: () => string | undefined): { readonly root: string } {
  let moved: string | undefined;
  return {
    get root() {
      moved ??= movedTo();
      return moved ?? path;
    },
  };
}

/** The same host folders, with every change refused. */
function readOnly(module: Emscripten): FileSystem {
  const { FS } = module;
  const { NODEFS } = FS.filesystems;
  const refuse = (): never => {
    throw new FS.ErrnoError(Errno.EROFS);
  };
  let nodeOps: Record<string, unknown> | undefined;
  let streamOps: StreamOps | undefined;
  const close = (node: ReturnType<FileSystem['mount']>): typeof node => {
    if (!nodeOps || !streamOps) {
      const { lookup, ...others } = node.node_ops;
      nodeOps = {
        ...others,
        lookup: (...args: unknown[]) => close((lookup as (...all: unknown[]) => typeof node)(...args)),
        ...Object.fromEntries(CHANGES.map((name) => [name, refuse])),
      };
      const { open } = node.stream_ops;
      streamOps = {
        ...node.stream_ops,
        open: (stream) => ((stream.flags & WRITES) === 0 ? open?.(stream) : refuse()),
        write: refuse,
      };
    }
    return Object.assign(node, { node_ops: nodeOps, stream_ops: streamOps });
  };
  return { ...NODEFS, mount: (mount) => close(NODEFS.mount(mount)) };
}
