/** How a client reaches its server: requests, and WebSockets. One for addresses, which browsers have too, one for sockets. */

import { CellaError } from '../protocol/errors.ts';

export interface TransportRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The part of a WebSocket that is used here; browsers, Node and `ws` have it. */
export interface Socket {
  binaryType: string;
  /** What was sent here and has not gone out. */
  readonly bufferedAmount: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: 'close', listener: (event: { readonly code: number }) => void): void;
  addEventListener(type: 'open' | 'error', listener: () => void): void;
  close(): void;
}

export interface Transport {
  /** For messages: an address, or the path of a socket. */
  readonly where: string;
  /** Whether as many requests as one likes can be open at a time. */
  readonly wide: boolean;
  /** Rejects with `unreachable` or `ABORTED`; every answer resolves. */
  request(request: TransportRequest): Promise<Response>;
  /** Undefined where a WebSocket cannot say who it is. */
  socket(path: string): Socket | undefined;
  close(): void;
}

/** Nobody answered, or the connection broke. `refused`: nothing was sent. */
export function unreachable(where: string, cause: unknown): CellaError {
  if (cause instanceof CellaError) return cause;
  const { code, text } = reasonOf(cause);
  if (/CERT|ALTNAME|SIGNATURE/.test(String(code))) return untrusted(where, text, cause);
  const refused = code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ENOTFOUND' || code === 'EACCES';
  const happened = refused ? `Nobody answers at ${where}` : `The connection to ${where} broke`;
  return new CellaError('DAEMON_UNREACHABLE', `${happened} (${text}).`, { cause, details: { where, refused } });
}

function untrusted(where: string, text: string, cause: unknown): CellaError {
  return new CellaError('DAEMON_UNREACHABLE', `The certificate of ${where} is not trusted here (${text}).`, {
    cause,
    details: { where, refused: true },
    advice:
      'Ask by the name that it is made for. NODE_EXTRA_CA_CERTS=cert.pem in the environment trusts one of your own.',
  });
}

/** `fetch` hides what happened behind one or two others. */
function reasonOf(error: unknown): { readonly code?: unknown; readonly text: string } {
  if (!(error instanceof Error)) return { text: String(error) };
  if ('code' in error) return { code: error.code, text: String(error.code) };
  const [first] = error instanceof AggregateError ? error.errors : [error.cause];
  return first === undefined ? { text: error.message } : reasonOf(first);
}

export function aborted(): CellaError {
  return new CellaError('ABORTED', 'The caller stopped waiting.');
}
