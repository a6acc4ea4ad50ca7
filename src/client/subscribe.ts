/** Follows the events of a session over WebSockets. If a connection breaks, it opens another and resumes by number. */

import { onAbort } from '../lib/abort.ts';
import { Backoff } from '../lib/backoff.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { jsonLines } from '../lib/line-splitter.ts';
import { AsyncQueue } from '../lib/queues.ts';
import type { RouteRequest } from '../protocol/api/route.ts';
import type { Routes } from '../protocol/api/routes.ts';
import { CloseCode, HeartbeatFrame } from '../protocol/api/socket-frames.ts';
import { type Conversation, reduceLogged } from '../protocol/conversation.ts';
import { CellaError } from '../protocol/errors.ts';
import { StreamItem } from '../protocol/session-events.ts';
import { type ApiClient, hasCode, parseResponse } from './api-client.ts';
import type { Monitor, Socket } from './transport.ts';

interface SubscribeOptions {
  /** The number of the last known event; 0 for all events. */
  readonly after: number;
  readonly resumeMs: number;
  readonly signal: AbortSignal;
  /** Registers this client as a responder. Requires a WebSocket. */
  readonly permissions?: 'answer';
  /** Called with each frame that is not an event. */
  readonly onReached?: (frame: unknown) => void;
}

/** Limit on unread data. Beyond this the connection is closed, and reopened once the reader has caught up. */
const MOST_WAITING = 8_000_000;
/** Errors of a server that shuts down, or whose session another server takes over. */
export const SERVER_GONE = ['SERVER_UNREACHABLE', 'SERVER_STOPPING', 'SESSION_ELSEWHERE'] as const;

/** Close codes after which the client does not resume. */
const endings = new Map<number, () => CellaError>([
  [
    CloseCode.refused,
    () => new CellaError('UNAUTHENTICATED', 'The token is no longer valid, or the session is no longer shared.'),
  ],
  [CloseCode.gone, () => new CellaError('NOT_FOUND', 'The session was deleted.')],
]);

/** Ends when the session is deleted or the signal aborts. */
export async function* subscribe(
  api: ApiClient,
  id: string,
  { after, resumeMs, signal, permissions, onReached }: SubscribeOptions,
): AsyncGenerator<StreamItem, void, undefined> {
  const backoff = new Backoff(resumeMs);
  let last = after;
  while (!signal.aborted) {
    const given = { params: { id }, query: { after: last } };
    const wanted = { ...given, query: { ...given.query, permissions } };
    const socket = api.socket('followEvents', wanted);
    if (!socket && permissions) {
      throw new CellaError('CAPABILITY_MISSING', 'This browser cannot send a token with a WebSocket. Log in instead.');
    }
    const reached = (frame: unknown) => {
      backoff.restartDeadline();
      onReached?.(frame);
    };
    const items = socket ? new SocketReader(socket, { api, signal, reached }).read() : lines(api, { ...given, signal });
    try {
      for await (const item of items) {
        backoff.reset();
        if ('seq' in item && item.seq <= last) continue;
        last = 'seq' in item ? item.seq : Math.max(last, item.throughSeq);
        yield item;
      }
    } catch (error) {
      if (signal.aborted || hasCode(error, 'NOT_FOUND')) return;
      if (!hasCode(error, ...SERVER_GONE)) throw error;
    }
    if (signal.aborted) return;
    try {
      // A WebSocket does not report why it was refused; a request does.
      await api.call('getSession', { params: { id }, signal, answersAtOnce: true });
      if (permissions) await mayFollow(api, wanted);
      await backoff.wait(new CellaError('SERVER_UNREACHABLE', `The events of ${id} cannot be followed.`));
    } catch (error) {
      if (!hasCode(error, ...SERVER_GONE)) throw error;
      await backoff.wait(error);
    }
  }
}

/** Throws unless the only problem is that this request is not a WebSocket upgrade. */
async function mayFollow(api: ApiClient, wanted: RouteRequest<Routes['followEvents']>): Promise<void> {
  await api.open('followEvents', { ...wanted, answersAtOnce: true }).catch((error) => {
    if (!hasCode(error, 'INVALID_REQUEST')) throw error;
  });
}

/** The fallback if a WebSocket cannot authenticate. */
async function* lines(
  api: ApiClient,
  given: { readonly params: { id: string }; readonly query: { after: number }; readonly signal: AbortSignal },
): AsyncGenerator<StreamItem, void, undefined> {
  const request = { ...given, accept: 'application/x-ndjson', answersAtOnce: true };
  for await (const line of jsonLines(await api.open('readEvents', request))) {
    const item = StreamItem.safeParse(line);
    if (item.success) yield item.data;
  }
}

interface SocketReaderOptions {
  readonly api: ApiClient;
  readonly signal: AbortSignal;
  /** Called with frames that are not events. */
  readonly reached: (frame: unknown) => void;
}

/** Ends with its connection. */
class SocketReader {
  readonly #socket: Socket;
  readonly #reached: (frame: unknown) => void;
  readonly #listening: Monitor;
  readonly #texts = new AsyncQueue<string>();

  constructor(socket: Socket, { api, signal, reached }: SocketReaderOptions) {
    this.#socket = socket;
    this.#reached = reached;
    const aborting = onAbort(signal, () => socket.close());
    const listening = api.monitor((error) => {
      socket.close();
      this.#texts.end(error);
    });
    this.#listening = listening;
    socket.addEventListener('message', ({ data }) => {
      listening.alive();
      this.#take(String(data));
    });
    socket.addEventListener('error', () => {}); // a close event follows
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
        if (isEvent(value)) yield parseResponse(StreamItem, value, 'ws');
        else this.#reached(value);
        const heartbeat = HeartbeatFrame.safeParse(value);
        if (heartbeat.success) this.#listening.expectEvery(heartbeat.data.everyMs);
      }
    } finally {
      this.#socket.close();
    }
  }

  #take(text: string): void {
    this.#texts.push(text, text.length);
    if (this.#texts.ended || this.#texts.size <= MOST_WAITING) return;
    // Later events come again after the reconnect, by their numbers.
    this.#texts.end();
    this.#socket.close();
  }
}

/** Other frames may arrive, including unknown types from a newer server. */
function isEvent(frame: unknown): boolean {
  if (typeof frame !== 'object' || frame === null || !('type' in frame)) return true;
  return 'seq' in frame || frame.type === 'trimmed';
}

/** Yields the current state, then the new state after each event that changes it. */
export async function* subscribeToConversation(
  api: ApiClient,
  id: string,
  options: Omit<SubscribeOptions, 'after'>,
): AsyncGenerator<Conversation, void, undefined> {
  let { seq, state } = await api.call('readConversation', { params: { id } });
  yield { seq, state };
  for await (const item of subscribe(api, id, { ...options, after: seq })) {
    if (item.type === 'trimmed') continue;
    const next = reduceLogged(state, item);
    seq = item.seq;
    if (next === state) continue;
    state = next;
    yield { seq, state };
  }
}
