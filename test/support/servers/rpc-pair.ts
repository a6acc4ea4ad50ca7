/** Two peers with nothing between them, and one peer whose other side is written by hand. */

import { PassThrough } from 'node:stream';
import { CellaError } from '../../../src/protocol/errors.ts';
import { portOfStreams, RpcPeer, type RpcPeerOptions } from '../../../src/protocol/rpc-peer.ts';

export function peerPair(options: RpcPeerOptions = {}) {
  const there = new PassThrough();
  const back = new PassThrough();
  const near = new RpcPeer(portOfStreams(back, there), options);
  const far = new RpcPeer(portOfStreams(there, back), options);
  return { near, far };
}

export interface Answer {
  readonly id: unknown;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly code: string } };
}

export function peerByHand(options: RpcPeerOptions = {}) {
  const input = new PassThrough();
  const output = new PassThrough();
  const peer = new RpcPeer(portOfStreams(input, output), options);
  const chunks = output.iterator({ destroyOnReturn: false });
  let held = '';
  return {
    peer,
    input,
    output,
    /** Text goes as it is, anything else as a message. */
    say: (message: string | Uint8Array | object) =>
      input.write(
        typeof message === 'string' || message instanceof Uint8Array
          ? message
          : `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`,
      ),
    /** The next line that the peer has written. */
    async answer(): Promise<Answer> {
      while (!held.includes('\n')) {
        const next = await chunks.next();
        if (next.done) throw new Error('The peer has ended its output.');
        held += String(next.value);
      }
      const end = held.indexOf('\n') + 1;
      const line = held.slice(0, end);
      held = held.slice(end);
      return JSON.parse(line);
    },
  };
}

/** The code of what a promise is rejected with. */
export function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'nothing was thrown',
    (error: unknown) => (error instanceof CellaError ? error.code : String(error)),
  );
}
