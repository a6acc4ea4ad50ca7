/** Subscribes to the events of a session over a WebSocket, and resumes by sequence number after a broken connection. */

import { onAbort } from '../lib/abort.ts';
import { Backoff } from '../lib/backoff.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { jsonLines } from '../lib/line-splitter.ts';
import { AsyncQueue } from '../lib/queues.ts';
import type { RouteRequest } from '../protocol/api/route.ts';
import type { Routes } from '../protocol/api/routes.ts';
import { CloseCode } from '../protocol/api/socket-frames.ts';
import { type Conversation, reduceLogged } from '../protocol/conversation.ts';
import { CellaError } from '../protocol/errors.ts';
import { StreamItem } from '../protocol/session-events.ts';
import { type ApiClient, hasCode, parseResponse } from './api-client.ts';
import type { Socket } from './transport.ts';

interface SubscribeOptions {
  /** The number of the last event that is known; 0 for all that there are. */
  readonly after: number;
  readonly resumeMs: number;
  readonly signal: AbortSignal;
  /** Says to the server that somebody answers here. Needs a WebSocket. */
  readonly permissions?: 'answer';
  /** Told whenever the server has answered, what that was. */
  readonly onReached?: (frame: unknown) => void;
}

/** What may wait here for a reader. Past it the connection is closed, and opened again when he has read. */
const MOST_WAITING = 8_000_000;
/** Of a server that ends, or whose session another one goes on with. */
const PASSING = ['SERVER_UNREACHABLE', 'SERVER_STOPPING', 'SESSION_ELSEWHERE'] as const;
/** The frames beside events. */
const OTHERS = new Set(['hello', 'stopping', 'reply', 'error']);

/** After these there is nothing to go on with. */
const endings = new Map<number, () => CellaError>([
  [
    CloseCode.refused,
    () => new CellaError('UNAUTHENTICATED', 'The token is no longer good, or the session is no longer shared.'),
  ],
  [CloseCode.gone, () => new CellaError('NOT_FOUND', 'The session was deleted.')],
]);

/** Ends where the session is deleted, or the signal says so. */
export async function* subscribe(
  link: ApiClient,
  id: string,
  { after, resumeMs, signal, permissions, onReached }: SubscribeOptions,
): AsyncGenerator<StreamItem, void, undefined> {
  const patience = new Backoff(resumeMs);
  let last = after;
  while (!signal.aborted) {
    const given = { params: { id }, query: { after: last } };
    const wanted = { ...given, query: { ...given.query, permissions } };
    const socket = link.socket('followEvents', wanted);
    if (!socket && permissions) {
      throw new CellaError('CAPABILITY_MISSING', 'A WebSocket of this browser cannot say who it is: log in instead.');
    }
    const reached = (frame: unknown) => {
      patience.restartDeadline();
      onReached?.(frame);
    };
    const items = socket
      ? new SocketReader(socket, { link, signal, reached }).read()
      : lines(link, { ...given, signal });
    try {
      for await (const item of items) {
        patience.reset();
        if ('seq' in item && item.seq <= last) continue;
        last = 'seq' in item ? item.seq : Math.max(last, item.throughSeq);
        yield item;
      }
    } catch (error) {
      if (signal.aborted || hasCode(error, 'NOT_FOUND')) return;
      if (!hasCode(error, ...PASSING)) throw error;
    }
    if (signal.aborted) return;
    try {
      // A WebSocket does not tell why it was refused; a request does.
      await link.call('getSession', { params: { id }, signal });
      if (permissions) await mayFollow(link, wanted);
      await patience.wait(new CellaError('SERVER_UNREACHABLE', `The events of ${id} cannot be followed.`));
    } catch (error) {
      if (!hasCode(error, ...PASSING)) throw error;
      await patience.wait(error);
    }
  }
}

/** The only thing wrong with the request may be that it is none for a WebSocket. */
async function mayFollow(link: ApiClient, wanted: RouteRequest<Routes['followEvents']>): Promise<void> {
  await link.open('followEvents', wanted).catch((error) => {
    if (!hasCode(error, 'INVALID_REQUEST')) throw error;
  });
}

/** Where a WebSocket cannot say who it is. */
async function* lines(
  link: ApiClient,
  given: { readonly params: { id: string }; readonly query: { after: number }; readonly signal: AbortSignal },
): AsyncGenerator<StreamItem, void, undefined> {
  for await (const line of jsonLines(await link.open('readEvents', { ...given, accept: 'application/x-ndjson' }))) {
    const item = StreamItem.safeParse(line);
    if (item.success) yield item.data;
  }
}

interface SocketReaderOptions {
  readonly link: ApiClient;
  readonly signal: AbortSignal;
  /** Told where the server says something beside events. */
  readonly reached: (frame: unknown) => void;
}

/** Ends where the connection does. */
class SocketReader {
  readonly #socket: Socket;
  readonly #reached: (frame: unknown) => void;
  readonly #texts = new AsyncQueue<string>();

  constructor(socket: Socket, { link, signal, reached }: SocketReaderOptions) {
    this.#socket = socket;
    this.#reached = reached;
    const aborting = onAbort(signal, () => socket.close());
    const listening = link.monitor((error) => {
      socket.close();
      this.#texts.end(error);
    });
    socket.addEventListener('message', ({ data }) => {
      listening.alive();
      this.#take(String(data));
    });
    socket.addEventListener('error', () => {}); // closing follows
    socket.addEventListener('close', ({ code }) => {
      aborting[Symbol.dispose]();
      listening.stop();
      this.#texts.end(endings.get(code)?.());
    });
  }

  async *read(): AsyncGenerator<StreamItem, void, undefined> {
    try {
      for await (const text of this.#texts) {
        const value = tryParseJson(text);
        if (OTHERS.has(Object(value).type)) this.#reached(value);
        else yield parseResponse(StreamItem, value, 'ws');
      }
    } finally {
      this.#socket.close();
    }
  }

  #take(text: string): void {
    this.#texts.push(text, text.length);
    if (this.#texts.ended || this.#texts.size <= MOST_WAITING) return;
    // What comes after it has no room comes again, by its number.
    this.#texts.end();
    this.#socket.close();
  }
}

/** The first is how it is; then one for each event that changes it. */
export async function* subscribeToConversation(
  link: ApiClient,
  id: string,
  options: Omit<SubscribeOptions, 'after'>,
): AsyncGenerator<Conversation, void, undefined> {
  let { seq, state } = await link.call('readConversation', { params: { id } });
  yield { seq, state };
  for await (const item of subscribe(link, id, { ...options, after: seq })) {
    if (item.type === 'trimmed') continue;
    const next = reduceLogged(state, item);
    seq = item.seq;
    if (next === state) continue;
    state = next;
    yield { seq, state };
  }
}
