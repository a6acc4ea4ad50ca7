/** A call to a provider: on connections that are kept, with a bound on every wait, and to no other host than the one named. */

import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
} from 'node:http';
import { Agent as HttpsAgent, request as requestTls } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { CellaError } from '../../protocol/errors.ts';
import { callerGone } from './gateway-errors.ts';

export interface UpstreamTimeouts {
  /** Until there is a connection. */
  readonly connectMs: number;
  /** From the end of the request to the first of the answer. */
  readonly answerMs: number;
  /** Between two pieces of an answer; and all that the agent has to take them. */
  readonly idleMs: number;
  /** A kept connection that is reset within this time was already closed. After it, the provider may have the request, and it is not sent again. */
  readonly staleMs: number;
  /** Before each further try of a provider that cannot be reached. */
  readonly pausesMs: readonly number[];
}

/** Providers take up to ten minutes for an answer that is no stream; a stream has a sign of life each few seconds. */
export const defaultUpstreamTimeouts: UpstreamTimeouts = {
  connectMs: 20_000,
  answerMs: 600_000,
  idleMs: 180_000,
  staleMs: 2000,
  pausesMs: [250, 1000, 2500],
};

/** There was no connection: the provider has heard nothing of the request, and may be asked again without harm. */
const UNHEARD = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);
/** It was heard, and may be answered at the next try. */
const PASSING = new Set(['ECONNRESET', 'EPIPE']);

export interface UpstreamRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers: OutgoingHttpHeaders;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal;
  /** Told of each connection that it goes out on, from when the provider may have it. */
  readonly onSent?: (() => void) | undefined;
}

export class Upstream implements Disposable {
  readonly #timeouts: UpstreamTimeouts;
  readonly #http = new HttpAgent({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16 });
  readonly #https = new HttpsAgent({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16 });

  constructor(timeouts: UpstreamTimeouts) {
    this.#timeouts = timeouts;
  }

  /** Redirects count as answers. PROVIDER_FAILED if there is no answer, ABORTED if the caller no longer waits. */
  async send(outgoing: UpstreamRequest): Promise<IncomingMessage> {
    const { pausesMs } = this.#timeouts;
    for (let tries = 1; ; tries++) {
      const first = await this.#try(outgoing);
      // A kept connection may have been closed from the other side at this very moment; nothing was answered on it.
      const outcome = first.kind === 'stale' ? await this.#try(outgoing) : first;
      switch (outcome.kind) {
        case 'answer':
          return outcome.answer;
        case 'stale':
          throw providerFailed('it closed the connection (ECONNRESET)');
        case 'failed':
          throw outcome.error;
        case 'unheard': {
          const pauseMs = pausesMs[tries - 1];
          if (pauseMs === undefined)
            throw permanentFailure(`it cannot be reached (${outcome.code}), in ${tries} tries`);
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
    const { url, method, headers, body, signal, onSent: onHeard = () => {} } = outgoing;
    const tls = url.protocol === 'https:';
    const sent = (tls ? requestTls : request)(url, { method, headers, agent: tls ? this.#https : this.#http, signal });
    const late = this.#watch(sent, resolve);
    const began = performance.now();
    sent.on('socket', (socket) => {
      if (!socket.connecting) onHeard();
      else socket.once(tls ? 'secureConnect' : 'connect', onHeard);
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

  /** First for a connection, then for the answer. */
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
      // One that answers before it has heard all of the request has answered.
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
  | { readonly kind: 'unheard'; readonly code: string }
  | { readonly kind: 'failed'; readonly error: CellaError };

function outcomeOf(code: string, mayBeStale: boolean): UpstreamOutcome {
  if (mayBeStale && code === 'ECONNRESET') return { kind: 'stale' };
  if (UNHEARD.has(code)) return { kind: 'unheard', code };
  const why = `it cannot be reached (${code})`;
  return { kind: 'failed', error: PASSING.has(code) ? providerFailed(why) : permanentFailure(why) };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {
    throw callerGone();
  });
}

/** Says nothing of the request, which holds the key. */
export const providerFailed = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}.`);

/** An error that a retry would meet again: the client is told not to retry. */
export const permanentFailure = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}.`, { details: { lasting: true } });

/** An answer that must not reach the agent. It is also logged as a refused attack. */
export const heldBack = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}, and was held back.`, {
    details: { lasting: true, heldBack: true },
  });
