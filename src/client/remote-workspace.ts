/** The workspace of a session at a server: its files, and terminals in it. */

import type { z } from 'zod';
import { onAbort } from '../lib/abort.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { chunksOf, jsonLines } from '../lib/line-splitter.ts';
import { AsyncQueue } from '../lib/queues.ts';
import { CloseCode, type TerminalClientFrame, TerminalServerFrame } from '../protocol/api/socket-frames.ts';
import { CellaError } from '../protocol/errors.ts';
import { ErrorBody, parseOptions } from '../protocol/parse.ts';
import type { ProcessExit } from '../protocol/process.ts';
import {
  FileChange,
  type FileInfo,
  type Terminal,
  TerminalOptions,
  TerminalSize,
  typedPieces,
} from '../protocol/workspace-models.ts';
import { type ApiClient, errorFromBody, hasCode, type SessionApiClient } from './api-client.ts';
import { type Monitor, type Socket, serverUnreachable } from './transport.ts';

export class RemoteFiles {
  readonly #session: SessionApiClient;
  readonly #closing: AbortSignal;

  constructor(session: SessionApiClient, closing: AbortSignal) {
    this.#session = session;
    this.#closing = closing;
  }

  /** The entries of a folder, sorted by name. `cut`: there are more than one listing holds. */
  list(path = ''): Promise<{ readonly files: readonly FileInfo[]; readonly cut: boolean }> {
    return this.#session.call('listFiles', { query: { path } });
  }

  /** Streams the bytes of a file. */
  async *read(path: string, { offset = 0 } = {}): AsyncGenerator<Uint8Array, void, undefined> {
    yield* chunksOf(await this.#session.open('readFile', { query: { path, offset } }));
  }

  /** Writes the whole file or nothing. Creates missing parent folders. */
  write(path: string, content: string | Uint8Array | AsyncIterable<Uint8Array>): Promise<FileInfo> {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    return this.#session.call('writeFile', { query: { path }, bytes });
  }

  makeFolder(path: string): Promise<void> {
    return this.#session.call('makeFolder', { body: { path } });
  }

  move(from: string, to: string, { replace = false } = {}): Promise<FileInfo> {
    return this.#session.call('moveFile', { body: { from, to, replace } });
  }

  delete(path: string, { recursive = false } = {}): Promise<void> {
    return this.#session.call('deleteFile', { query: { path, recursive: recursive ? 'true' : 'false' } });
  }

  /**
   * Yields changes below a folder, starting with `watching`, until the signal aborts or the session is closed. Throws if the
   * connection breaks: list the folder again before you watch it again.
   */
  async *watch(path = '', { signal }: { readonly signal?: AbortSignal } = {}): AsyncGenerator<FileChange> {
    const { address } = this.#session.api;
    const until = signal ? AbortSignal.any([signal, this.#closing]) : this.#closing;
    const given = { query: { path }, accept: 'application/x-ndjson', signal: until };
    try {
      for await (const line of jsonLines(await this.#session.open('watchFiles', given))) {
        const change = FileChange.safeParse(line);
        if (change.success) yield change.data;
        const failure = ErrorBody.safeParse(line);
        if (failure.success) throw errorFromBody(failure.data.error);
      }
    } catch (error) {
      if (until.aborted) return;
      throw error instanceof CellaError ? error : serverUnreachable(address, error);
    }
    if (!until.aborted) throw serverUnreachable(address, new Error('the stream ended'));
  }
}

export async function openRemoteTerminal(
  api: ApiClient,
  id: string,
  options: TerminalOptions,
  closing: AbortSignal,
): Promise<Terminal> {
  const { cols, rows, argv } = parseOptions(TerminalOptions, options);
  const given = { params: { id }, query: { cols, rows, argv } };
  const socket = api.socket('openTerminal', given);
  if (!socket) {
    const message = 'A page cannot open a terminal with a token. Log in with the browser, so that it sends its cookie.';
    throw new CellaError('CAPABILITY_MISSING', message);
  }
  const terminal = new RemoteTerminal(socket, api, closing);
  if (await terminal.opened) return terminal;
  // A WebSocket does not report why it was refused; a request does.
  await api.call('openTerminal', { ...given, answersAtOnce: true }).catch((error) => {
    if (!hasCode(error, 'INVALID_REQUEST')) throw error;
  });
  throw new CellaError('SERVER_UNREACHABLE', `The terminal could not be opened at ${api.address}.`);
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

  constructor(socket: Socket, api: ApiClient, closing: AbortSignal) {
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
    const listening = api.monitor((problem) => {
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
    this.#problem = new CellaError('CLIENT_TOO_SLOW', 'The output of the terminal was not read.');
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
  [CloseCode.refused, () => new CellaError('UNAUTHENTICATED', 'The token is no longer valid.')],
  [CloseCode.closing, () => new CellaError('SERVER_STOPPING', 'The server is shutting down.')],
  [CloseCode.slow, () => new CellaError('CLIENT_TOO_SLOW', 'The output of the terminal was not read.')],
]);

const broken = (): CellaError =>
  new CellaError('SERVER_UNREACHABLE', 'The connection ended before the program; the program ended with it.');

const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
