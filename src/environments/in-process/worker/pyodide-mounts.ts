/** The host's folders inside the interpreter, writable or read-only. */

import type { EnvironmentSpec } from '../../../protocol/environment-spec.ts';
import { type Emscripten, Errno, type FileSystem, type StreamOps } from './emscripten.ts';

const CHANGES = ['mknod', 'rename', 'unlink', 'rmdir', 'symlink', 'setattr'] as const;
const WRITES = 0o3 | 0o100 | 0o1000 | 0o2000;

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
  // An outer folder first: what lies in it is mounted over it.
  for (const { path, at, type } of folders.sort((one, other) => one.at.length - other.at.length)) {
    FS.mkdirTree(at);
    FS.mount(type, path === spec.folder.path ? movable(path, movedTo) : { root: path }, at);
  }
}

/** The agent's folder gets its path when a session takes the kernel, so every file is looked up by the path of that time. */
function movable(path: string, movedTo: () => string | undefined): { readonly root: string } {
  let moved: string | undefined;
  return {
    get root() {
      moved ??= movedTo();
      return moved ?? path;
    },
  };
}

/** The same folders of the host, with every change refused. */
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
