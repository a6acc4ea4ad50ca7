/** A terminal in a session at a server. Its program ends with the connection. */

import type { z } from 'zod';
import { onAbort } from '../lib/abort.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { AsyncQueue } from '../lib/queues.ts';
import { CloseCode, type TerminalClientFrame, TerminalServerFrame } from '../protocol/api/socket-frames.ts';
import { CellaError } from '../protocol/errors.ts';
import { parseOptions } from '../protocol/parse.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { type Terminal, TerminalOptions, TerminalSize, typedPieces } from '../protocol/workspace-models.ts';
import { type ApiClient, errorFromBody, hasCode } from './api-client.ts';
import type { Monitor, Socket } from './transport.ts';

export async function openRemoteTerminal(
  link: ApiClient,
  id: string,
  options: TerminalOptions,
  closing: AbortSignal,
): Promise<Terminal> {
  const { cols, rows, argv } = parseOptions(TerminalOptions, options);
  const given = { params: { id }, query: { cols, rows, argv } };
  const socket = link.socket('openTerminal', given);
  if (!socket) {
    const message = 'A page cannot open a terminal with a token: a browser logs in, and its cookie goes along.';
    throw new CellaError('CAPABILITY_MISSING', message);
  }
  const terminal = new RemoteTerminal(socket, link, closing);
  if (await terminal.opened) return terminal;
  // A WebSocket does not report why it was refused; a request does.
  await link.call('openTerminal', given).catch((error) => {
    if (!hasCode(error, 'INVALID_REQUEST')) throw error;
  });
  throw new CellaError('SERVER_UNREACHABLE', `The terminal could not be opened at ${link.address}.`);
}

/** Limit on unread output. A WebSocket has no backpressure, so beyond this the terminal is closed. */
const MOST_WAITING = 8_000_000;
/** Limit on unsent input, and how often it is polled: a WebSocket does not report when it has sent. */
const MOST_UNSENT = 256 * 1024;
const LOOK_AGAIN_MS = 10;

class RemoteTerminal implements Terminal {
  readonly output: AsyncIterable<Uint8Array>;
  readonly exited: Promise<ProcessExit>;
  /** False if the terminal failed to open. */
  readonly opened: Promise<boolean>;
  readonly #socket: Socket;
  readonly #closed = Promise.withResolvers<void>();
  readonly #output = new AsyncQueue<Uint8Array>();
  #typing: Promise<void> = Promise.resolve();
  #problem: CellaError | undefined;

  constructor(socket: Socket, link: ApiClient, closing: AbortSignal) {
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    const exit = Promise.withResolvers<ProcessExit>();
    const open = Promise.withResolvers<boolean>();
    const aborting = onAbort(closing, () => socket.close());
    // A server that does not answer does not complete the close either.
    const over = (problem: CellaError) => {
      aborting[Symbol.dispose]();
      listening.stop();
      open.resolve(false);
      exit.reject(problem);
      this.#closed.resolve();
      this.#output.end();
    };
    const listening = link.monitor((problem) => {
      socket.close();
      over(problem);
    });
    socket.addEventListener('open', () => open.resolve(true));
    socket.addEventListener('error', () => {}); // a close event follows
    socket.addEventListener('message', ({ data }) => {
      listening.alive();
      if (data instanceof ArrayBuffer) this.#show(new Uint8Array(data));
      else this.#handleFrame(String(data), listening, exit.resolve);
    });
    socket.addEventListener('close', ({ code }) => over(this.#problem ?? endings.get(code)?.() ?? broken()));
    this.opened = open.promise;
    this.exited = exit.promise;
    this.exited.catch(() => {}); // callers of `exited` get it
    this.output = this.#output;
  }

  write(data: Uint8Array | string): Promise<void> {
    this.#typing = this.#typing.then(async () => {
      for (const piece of typedPieces(data)) {
        while (this.#socket.bufferedAmount > MOST_UNSENT && !this.#output.ended) await moment();
        if (this.#output.ended) return;
        this.#socket.send(piece);
      }
    });
    return this.#typing;
  }

  resize(size: TerminalSize): void {
    const frame: z.infer<typeof TerminalClientFrame> = { type: 'resize', ...parseOptions(TerminalSize, size) };
    if (!this.#output.ended) this.#socket.send(JSON.stringify(frame));
  }

  async close(): Promise<void> {
    this.#socket.close();
    await this.#closed.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #show(chunk: Uint8Array): void {
    this.#output.push(chunk, chunk.length);
    if (this.#output.ended || this.#output.size <= MOST_WAITING) return;
    this.#problem = new CellaError('CLIENT_TOO_SLOW', 'What the terminal shows was not read.');
    this.#socket.close();
    this.#output.end();
  }

  #handleFrame(text: string, listening: Monitor, exited: (exit: ProcessExit) => void): void {
    const { data: frame } = TerminalServerFrame.safeParse(tryParseJson(text));
    switch (frame?.type) {
      case 'heartbeat':
        listening.expectEvery(frame.everyMs);
        break;
      case 'error':
        this.#problem = errorFromBody(frame.error);
        break;
      case 'exit':
        exited('code' in frame ? { code: frame.code } : { signal: frame.signal });
        break;
      case undefined:
        // An unknown frame of a newer server.
        break;
    }
  }
}

const endings = new Map<number, () => CellaError>([
  [CloseCode.refused, () => new CellaError('UNAUTHENTICATED', 'The token is no longer good.')],
  [CloseCode.closing, () => new CellaError('SERVER_STOPPING', 'The server is shutting down.')],
  [CloseCode.slow, () => new CellaError('CLIENT_TOO_SLOW', 'What the terminal showed was not read.')],
]);

const broken = (): CellaError =>
  new CellaError('SERVER_UNREACHABLE', 'The connection ended before the program; the program ended with it.');

const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
