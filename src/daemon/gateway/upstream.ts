/** A call to a provider: on connections that are kept, with a bound on every wait, and to no other host than the one named. */

import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
} from 'node:http';
import { Agent as HttpsAgent, request as requestTls } from 'node:https';
import { CellaError } from '../../protocol/errors.ts';

export interface Patience {
  /** Until there is a connection. */
  readonly connectMs: number;
  /** From the end of the request to the first of the answer. */
  readonly answerMs: number;
  /** Between two pieces of an answer, and for the agent to take one. */
  readonly idleMs: number;
}

/** Providers take up to ten minutes for an answer that is no stream; a stream has a sign of life each few seconds. */
export const defaultPatience: Patience = { connectMs: 20_000, answerMs: 600_000, idleMs: 180_000 };

export interface Outgoing {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers: OutgoingHttpHeaders;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal;
}

export class Upstream implements Disposable {
  readonly #patience: Patience;
  readonly #http = new HttpAgent({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16 });
  readonly #https = new HttpsAgent({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16 });

  constructor(patience: Patience) {
    this.#patience = patience;
  }

  /** Redirects are answers like others. PROVIDER_FAILED where there is none, ABORTED where nobody waits any more. */
  async send(outgoing: Outgoing): Promise<IncomingMessage> {
    const first = await this.#try(outgoing);
    // A kept connection may have been closed from the other side at this very moment; nothing was answered on it.
    const again = first.kind === 'stale' ? await this.#try(outgoing) : first;
    if (again.kind === 'answer') return again.answer;
    throw again.kind === 'stale' ? failed('it closed the connection (ECONNRESET)') : again.error;
  }

  [Symbol.dispose](): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  #try(outgoing: Outgoing): Promise<Outcome> {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const { url, method, headers, body, signal } = outgoing;
    const tls = url.protocol === 'https:';
    const sent = (tls ? requestTls : request)(url, { method, headers, agent: tls ? this.#https : this.#http, signal });
    const late = this.#watch(sent, resolve);
    sent.on('response', (answer) => {
      clearTimeout(late.timer);
      resolve({ kind: 'answer', answer });
    });
    sent.on('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(late.timer);
      if (signal.aborted)
        resolve({ kind: 'failed', error: new CellaError('ABORTED', 'Nobody waits for it any more.') });
      else if (sent.reusedSocket && error.code === 'ECONNRESET') resolve({ kind: 'stale' });
      else resolve({ kind: 'failed', error: failed(`it cannot be reached (${error.code ?? 'unknown'})`) });
    });
    sent.end(body);
    return promise;
  }

  /** First for a connection, then for the answer. */
  #watch(sent: ClientRequest, resolve: (outcome: Outcome) => void): { timer: NodeJS.Timeout } {
    const { connectMs, answerMs } = this.#patience;
    const giveUp = (what: string) => () => {
      resolve({ kind: 'failed', error: failed(what) });
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

type Outcome =
  | { readonly kind: 'answer'; readonly answer: IncomingMessage }
  | { readonly kind: 'stale' }
  | { readonly kind: 'failed'; readonly error: CellaError };

/** Says nothing of the request, which holds the key. */
export const failed = (why: string): CellaError =>
  new CellaError('PROVIDER_FAILED', `The provider of the model failed: ${why}.`);
