/** Passes a provider's response on to the agent: a stream as it comes, no faster than the agent reads; others when complete. */

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { giveWay } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { callerGone } from './gateway-errors.ts';
import { responseHeaders } from './provider-api.ts';
import type { AnswerReader } from './response-reader.ts';
import { permanentFailure, providerFailed } from './upstream.ts';

export interface RelayOptions {
  readonly key: string;
  readonly streamed: boolean;
  readonly idleMs: number;
  readonly mostBytes: number;
  readonly reader: AnswerReader;
  readonly signal: AbortSignal;
}

/** What is read without a turn for others: thousands of tiny events fit into a packet. */
const SLICE_BYTES = 8 * 1024;
const MOST_JOINED_BYTES = 256 * 1024;
/** With these, and with no other refusal, the same request may be answered at the next try. */
const PASSING = new Set([408, 409, 425, 429]);

/** Does not end the response: the usage is saved first. Throws if the provider's answer is wrong. */
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

/** All that was passed, also where reading fails in the middle of a chunk. False where the agent does not keep up. */
function passOn(response: ServerResponse, read: (pass: (bytes: Buffer) => void) => void): boolean {
  const passed: Buffer[] = [];
  let keepsUp = true;
  try {
    read((bytes) => passed.push(bytes));
  } finally {
    const size = passed.reduce((sum, { length }) => sum + length, 0);
    // Many small pieces are written as one, and large ones are not copied for that.
    const written = size > MOST_JOINED_BYTES ? passed : [Buffer.concat(passed)];
    if (size > 0) for (const piece of written) keepsUp = response.write(piece);
  }
  return keepsUp;
}

/** The agent knows at once that a stream has begun. */
function begin(answer: IncomingMessage, response: ServerResponse, { key, streamed }: RelayOptions): void {
  const { statusCode = 502 } = answer;
  const headers = Object.entries(responseHeaders(answer.headers, key));
  for (const [name, value] of headers) if (value !== undefined) response.setHeader(name, value);
  if (!streamed) response.setHeader('content-type', 'application/json');
  // Agents try again for minutes where this is not said.
  if (statusCode >= 400 && statusCode < 500 && !PASSING.has(statusCode)) response.setHeader('x-should-retry', 'false');
  response.writeHead(statusCode);
  response.flushHeaders();
}

/** The time that the agent takes is not the provider's silence: nothing is asked for meanwhile. */
async function* inTime(answer: IncomingMessage, idleMs: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  const silence = providerFailed(`it was silent for ${idleMs} ms in the middle of its answer`);
  const chunks: AsyncIterator<Buffer> = answer[Symbol.asyncIterator]();
  try {
    for (;;) {
      const timer = setTimeout(() => answer.destroy(silence), idleMs);
      const { done, value } = await chunks.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } catch (error) {
    if (signal.aborted) throw callerGone();
    throw error instanceof CellaError ? error : providerFailed('it broke off in the middle of its answer');
  } finally {
    answer.destroy();
  }
}

/**
 * The time that an agent has to take all of a stream, beside the time that the provider needs: what its call may come to
 * is kept from the budget meanwhile, and a little now and then would keep it for hours.
 */
function slowReaderTimeout(mostMs: number, signal: AbortSignal): (response: ServerResponse) => Promise<void> {
  let leftMs = mostMs;
  return async (response) => {
    const began = performance.now();
    try {
      await once(response, 'drain', { signal: AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(leftMs))]) });
    } catch {
      throw new CellaError('ABORTED', 'The agent takes the answer too slowly, or not at all.');
    }
    leftMs = Math.max(0, leftMs - (performance.now() - began));
  };
}

export interface ResponseKind {
  readonly streamed: boolean;
  readonly good: boolean;
}

/** To no other host than the one that was configured, whatever the answer says. */
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
  if (good && !streamed && !/^application\/json\b/i.test(type))
    throw refused('it answered with something else than JSON');
  return { streamed, good };
}

export const isStream = (type: string): boolean => /^text\/event-stream\b/i.test(type);
