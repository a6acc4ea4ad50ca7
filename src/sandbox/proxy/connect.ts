/** A connection to the first of some addresses that takes one. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const LONGEST_CONNECT_MS = 10_000;

/** Undefined where none does, or where nobody waits any more. */
export async function connectFirst(
  addresses: readonly string[],
  port: number,
  gone: AbortSignal,
): Promise<Socket | undefined> {
  for (const host of addresses) {
    if (gone.aborted) return undefined;
    // An address, never a name: nothing is looked up again.
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    // Until its owner listens.
    socket.on('error', () => socket.destroy());
    try {
      await once(socket, 'connect', { signal: AbortSignal.any([gone, AbortSignal.timeout(LONGEST_CONNECT_MS)]) });
      return socket;
    } catch {
      socket.destroy(); // refused, unreachable or too slow: perhaps the next one
    }
  }
  return undefined;
}
