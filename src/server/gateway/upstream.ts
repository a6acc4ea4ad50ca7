/**
 * Calls a provider on keep-alive connections, with a timeout on every wait, and only at the configured host. Streams reach
 * the agent as they arrive, no faster than it reads.
 */

import { once } from 'node:events';
import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type ServerResponse,
} from 'node:http';
import { Agent as HttpsAgent, request as requestTls } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { giveWay } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { responseHeaders } from './provider-api.ts';
import type { AnswerReader } from './response-filter.ts';

export interface UpstreamTimeouts {
  /** Until the connection is open. */
  readonly connectMs: number;
  /** From the end of the request to the start of the answer. */
  readonly answerMs: number;
  /** Between two pieces of an answer. Also the total time that the agent may block reading. */
  readonly idleMs: number;
  /** A keep-alive connection reset within this time was already closed. Later, the provider may have the request: no retry. */
  readonly staleMs: number;
  /** Pauses before retrying an unreachable provider. */
  readonly pausesMs: readonly number[];
}

/** Providers take up to ten minutes for an answer without streaming. Streams send a heartbeat every few seconds. */
export const defaultUpstreamTimeouts: UpstreamTimeouts = {
  connectMs: 20_000,
  answerMs: 600_000,
  idleMs: 180_000,
  staleMs: 2000,
  pausesMs: [250, 1000, 2500],
};

/** No connection was made, so a retry is safe. */
const UNREACHED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);
/** The provider may have received the request. A retry may succeed. */
const PASSING_CODES = new Set(['ECONNRESET', 'EPIPE']);

interface UpstreamRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers: OutgoingHttpHeaders;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal;
  /** Called for each connection once the provider may have received the request. */
  readonly onSent?: (() => void) | undefined;
}

export class Upstream implements Disposable {
  readonly #timeouts: UpstreamTimeouts;
  readonly #http = new HttpAgent({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16 });
  readonly #https = new HttpsAgent({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16 });

  constructor(timeouts: UpstreamTimeouts) {
    this.#timeouts = timeouts;
  }

  /** Redirects count as answers. Throws PROVIDER_FAILED if there is no answer, and ABORTED if the caller no longer waits. */
  async send(outgoing: UpstreamRequest): Promise<IncomingMessage> {
    const { pausesMs } = this.#timeouts;
    for (let tries = 1; ; tries++) {
      const first = await this.#try(outgoing);
      // The provider may have just closed a keep-alive connection. Nothing was answered on it, so retry.
      const outcome = first.kind === 'stale' ? await this.#try(outgoing) : first;
      switch (outcome.kind) {
        case 'answer':
          return outcome.answer;
        case 'stale':
          throw providerFailed('it closed the connection (ECONNRESET)');
        case 'failed':
          throw outcome.error;
        case 'unreached': {
          const pauseMs = pausesMs[tries - 1];
          if (pauseMs === undefined)
            throw permanentFailure(`it cannot be reached (${outcome.code}), after ${tries} attempts`);
          await pause(pauseMs, outgoing.signal);
        }
      }
    }
  }

  [Symbol.dispose](): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  #try(outgoing: UpstreamRequest): Promise<UpstreamOutcome> {
    const { promise, resolve } = Promise.withResolvers<UpstreamOutcome>();
    const { url, method, headers, body, signal, onSent = () => {} } = outgoing;
    const tls = url.protocol === 'https:';
    const sent = (tls ? requestTls : request)(url, { method, headers, agent: tls ? this.#https : this.#http, signal });
    const late = this.#watch(sent, resolve);
    const began = performance.now();
    sent.on('socket', (socket) => {
      if (!socket.connecting) onSent();
      else socket.once(tls ? 'secureConnect' : 'connect', onSent);
    });
    sent.on('response', (answer) => {
      clearTimeout(late.timer);
      resolve({ kind: 'answer', answer });
    });
    sent.on('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(late.timer);
      const mayBeStale = sent.reusedSocket && performance.now() - began < this.#timeouts.staleMs;
      if (signal.aborted) resolve({ kind: 'failed', error: callerGone() });
      else resolve(outcomeOf(error.code ?? 'unknown', mayBeStale));
    });
    sent.end(body);
    return promise;
  }

  /** Times the connection first, then the answer. */
  #watch(sent: ClientRequest, resolve: (outcome: UpstreamOutcome) => void): { timer: NodeJS.Timeout } {
    const { connectMs, answerMs } = this.#timeouts;
    const giveUp = (what: string) => () => {
      resolve({ kind: 'failed', error: permanentFailure(what) });
      sent.destroy();
    };
    const late = { timer: setTimeout(giveUp(`there was no connection within ${connectMs} ms`), connectMs) };
    let answered = false;
    sent.on('response', () => {
      answered = true;
    });
    sent.on('finish', () => {
      // The provider may answer before it has read the whole request.
      if (answered) return;
      clearTimeout(late.timer);
      late.timer = setTimeout(giveUp(`it did not answer within ${answerMs} ms`), answerMs);
    });
    return late;
  }
}

type UpstreamOutcome =
  | { readonly kind: 'answer'; readonly answer: IncomingMessage }
  | { readonly kind: 'stale' }
  | { readonly kind: 'unreached'; readonly code: string }
  | { readonly kind: 'failed'; readonly error: CellaError };

function outcomeOf(code: string, mayBeStale: boolean): UpstreamOutcome {
  if (mayBeStale && code === 'ECONNRESET') return { kind: 'stale' };
  if (UNREACHED.has(code)) return { kind: 'unreached', code };
  const why = `it cannot be reached (${code})`;
  return { kind: 'failed', error: PASSING_CODES.has(code) ? providerFailed(why) : permanentFailure(why) };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {
    throw callerGone();
  });
}

/** Does not mention the request, which contains the key. */
export const callerGone = (): CellaError => new CellaError('ABORTED', 'The caller no longer waits for the answer.');

export const providerFailed = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}.`);

/** An error that would recur: tells the client not to retry. */
export const permanentFailure = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}.`, { details: { permanent: true } });

/** An answer that must not reach the agent. It is also logged as a refused attack. */
export const heldBack = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}, so the gateway did not pass it on.`, {
    details: { permanent: true, heldBack: true },
  });

interface RelayOptions {
  readonly key: string;
  readonly streamed: boolean;
  readonly idleMs: number;
  readonly mostBytes: number;
  readonly reader: AnswerReader;
  readonly signal: AbortSignal;
}

/** How much is read before other work gets a turn: thousands of tiny events fit into a packet. */
const SLICE_BYTES = 8 * 1024;
const MOST_JOINED_BYTES = 256 * 1024;
/** The only 4xx statuses for which a retry may succeed. */
const PASSING_STATUS = new Set([408, 409, 425, 429]);

/** Does not end the response, because the usage is saved first. Throws if the provider's answer is invalid. */
export async function relayResponse(
  answer: IncomingMessage,
  response: ServerResponse,
  options: RelayOptions,
): Promise<void> {
  const { streamed, idleMs, mostBytes, reader, signal } = options;
  const taken = slowReaderTimeout(idleMs, signal);
  let size = 0;
  if (streamed) begin(answer, response, options);
  for await (const chunk of inTime(answer, idleMs, signal)) {
    size += chunk.length;
    if (size > mostBytes) throw providerFailed(`its answer is larger than ${mostBytes} bytes`);
    for (let from = 0; from < chunk.length; from += SLICE_BYTES) {
      await giveWay();
      const slice = chunk.subarray(from, from + SLICE_BYTES);
      if (!passOn(response, (pass) => reader.push(slice, pass))) await taken(response);
    }
  }
  passOn(response, (pass) => {
    reader.end(pass);
    if (!streamed) begin(answer, response, options);
  });
}

/** Writes everything that passed, even if reading fails midway. Returns false if the agent does not keep up. */
function passOn(response: ServerResponse, read: (pass: (bytes: Buffer) => void) => void): boolean {
  const passed: Buffer[] = [];
  let keepsUp = true;
  try {
    read((bytes) => passed.push(bytes));
  } finally {
    const size = passed.reduce((sum, { length }) => sum + length, 0);
    // Join small pieces into one write, but do not copy large ones.
    const written = size > MOST_JOINED_BYTES ? passed : [Buffer.concat(passed)];
    if (size > 0) for (const piece of written) keepsUp = response.write(piece);
  }
  return keepsUp;
}

/** Sends the response head, so that the agent sees the stream start. */
function begin(answer: IncomingMessage, response: ServerResponse, { key, streamed }: RelayOptions): void {
  const { statusCode = 502 } = answer;
  const headers = Object.entries(responseHeaders(answer.headers, key));
  for (const [name, value] of headers) if (value !== undefined) response.setHeader(name, value);
  // Not the provider's: in another charset, a client could read something else than what was checked.
  response.setHeader('content-type', streamed ? 'text/event-stream; charset=utf-8' : 'application/json');
  // Without this header, agents retry for minutes.
  if (statusCode >= 400 && statusCode < 500 && !PASSING_STATUS.has(statusCode))
    response.setHeader('x-should-retry', 'false');
  response.writeHead(statusCode);
  response.flushHeaders();
}

/** The agent's reading time does not count as the provider's idle time. */
async function* inTime(answer: IncomingMessage, idleMs: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  const idle = providerFailed(`it was silent for ${idleMs} ms in the middle of its answer`);
  const chunks: AsyncIterator<Buffer> = answer[Symbol.asyncIterator]();
  try {
    for (;;) {
      const timer = setTimeout(() => answer.destroy(idle), idleMs);
      const { done, value } = await chunks.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } catch (error) {
    if (signal.aborted) throw callerGone();
    throw error instanceof CellaError ? error : providerFailed('it closed the connection in the middle of its answer');
  } finally {
    answer.destroy();
  }
}

/**
 * Limits the total time that an agent may block a stream. The call's worst-case cost stays reserved meanwhile, and an agent
 * that reads a little now and then could hold it for hours.
 */
function slowReaderTimeout(mostMs: number, signal: AbortSignal): (response: ServerResponse) => Promise<void> {
  let leftMs = mostMs;
  return async (response) => {
    const began = performance.now();
    try {
      await once(response, 'drain', { signal: AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(leftMs))]) });
    } catch {
      throw new CellaError('ABORTED', 'The agent reads the answer too slowly, or not at all.');
    }
    leftMs = Math.max(0, leftMs - (performance.now() - began));
  };
}

interface ResponseKind {
  readonly streamed: boolean;
  readonly good: boolean;
}

/** Refuses redirects: calls go only to the configured host. */
export function responseKind(answer: IncomingMessage): ResponseKind {
  const { statusCode: status = 0, headers } = answer;
  const type = headers['content-type'] ?? '';
  const refused = (why: string) => {
    answer.destroy();
    return permanentFailure(why);
  };
  if (status < 200 || (status >= 300 && status < 400))
    throw refused(`it answered with ${status}, which leads elsewhere`);
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw refused('its answer is compressed');
  const streamed = isStream(type);
  const good = status < 300;
  if (good && !streamed && !/^application\/json\b/i.test(type)) throw refused('its answer is not JSON');
  return { streamed, good };
}

export const isStream = (type: string): boolean => /^text\/event-stream\b/i.test(type);
