/**
 * Forwards a loopback port to a Unix socket, which leads to the model gateway and the session's MCP server. Bytes pass
 * unchanged; access is checked behind the socket, by token.
 */

import { closeSync, constants, openSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { basename, dirname } from 'node:path';
import { CellaError } from '../protocol/errors.ts';

export interface LoopbackForwarder extends AsyncDisposable {
  readonly url: string;
  /** Ends every connection. */
  close(): Promise<void>;
}

export async function openLoopbackForwarder(socketPath: string): Promise<LoopbackForwarder> {
  const target = shortenPath(socketPath);
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (near) => {
    const far = connect({ path: target.path, allowHalfOpen: true });
    for (const socket of [near, far]) {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    }
    join(near, far);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(new CellaError('RUNNER_GONE', 'No loopback port could be opened.', { cause })),
    );
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a listening server has a port');
  const close = async (): Promise<void> => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
    target.release();
  };
  return { url: `http://127.0.0.1:${address.port}`, close, [Symbol.asyncDispose]: close };
}

/** The limit of a socket path, with a margin. */
const LONGEST_NAME = 100;

/** Shortens a long path with a descriptor of its folder. `release` closes the descriptor. */
function shortenPath(socketPath: string): { readonly path: string; release(): void } {
  const long = Buffer.byteLength(socketPath) > LONGEST_NAME;
  if (!long || process.platform !== 'linux') return { path: socketPath, release: () => {} };
  let folder: number | undefined = openSync(dirname(socketPath), constants.O_RDONLY | constants.O_DIRECTORY);
  return {
    path: `/proc/self/fd/${folder}/${basename(socketPath)}`,
    release: () => {
      if (folder !== undefined) closeSync(folder);
      folder = undefined;
    },
  };
}

/** Passes on each half-close. If one side breaks, so does the other. */
function join(near: Socket, far: Socket): void {
  const pass = (from: Socket, to: Socket, breakOff: () => void): void => {
    from.pipe(to);
    from.once('error', breakOff);
    from.once('close', () => {
      // Closed without an end: the connection broke.
      if (!from.readableEnded) breakOff();
    });
  };
  pass(near, far, () => far.destroy());
  pass(far, near, () => near.resetAndDestroy());
}
