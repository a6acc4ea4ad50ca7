/** Passes an answer on: a stream as it comes, no faster than the agent takes it; any other one when it is whole. */

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CellaError } from '../../protocol/errors.ts';
import { answeredHeaders } from './headers.ts';
import { KeyWatch } from './key-watch.ts';
import { failed } from './upstream.ts';
import type { UsageReader } from './usage-reader.ts';

export interface RelayOptions {
  readonly key: string;
  readonly streamed: boolean;
  /** Whether the provider says that it went well; only then it must be what this provider answers. */
  readonly good: boolean;
  readonly idleMs: number;
  readonly mostBytes: number;
  readonly reader: UsageReader;
  readonly signal: AbortSignal;
}

/** Does not end the response: what was used is to be written down first. Fails with what the provider did wrong. */
export async function relay(answer: IncomingMessage, response: ServerResponse, options: RelayOptions): Promise<void> {
  const { key, streamed, good, idleMs, reader, signal } = options;
  const held: Buffer[] = [];
  const taken = readersPatience(idleMs, signal);
  if (streamed) begin(answer, response, key);
  for await (const chunk of watched(answer, options)) {
    reader.push(chunk);
    if (!streamed) held.push(chunk);
    else if (!response.write(chunk)) await taken(response);
  }
  if (!reader.end() && good) throw failed('its answer is not what this provider answers, or is not whole');
  if (streamed) return;
  begin(answer, response, key);
  response.write(Buffer.concat(held));
}

/** The agent knows at once that a stream has begun. */
function begin(answer: IncomingMessage, response: ServerResponse, key: string): void {
  const headers = Object.entries(answeredHeaders(answer.headers, key));
  for (const [name, value] of headers) if (value !== undefined) response.setHeader(name, value);
  response.writeHead(answer.statusCode ?? 502);
  response.flushHeaders();
}

async function* watched(answer: IncomingMessage, options: RelayOptions): AsyncGenerator<Buffer> {
  const { key, idleMs, mostBytes, signal } = options;
  const watch = new KeyWatch(key);
  let size = 0;
  for await (const chunk of inTime(answer, idleMs, signal)) {
    size += chunk.length;
    if (size > mostBytes) throw failed(`its answer is larger than ${mostBytes} bytes`);
    if (!watch.passes(chunk)) throw failed('its answer holds the key, and was held back');
    yield chunk;
  }
}

/** The time that the agent takes is not the provider's silence: nothing is asked for meanwhile. */
async function* inTime(answer: IncomingMessage, idleMs: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  const silence = failed(`it was silent for ${idleMs} ms in the middle of its answer`);
  const chunks: AsyncIterator<Buffer> = answer[Symbol.asyncIterator]();
  try {
    for (;;) {
      const timer = setTimeout(() => answer.destroy(silence), idleMs);
      const { done, value } = await chunks.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } catch (error) {
    if (signal.aborted) throw new CellaError('ABORTED', 'Nobody waits for it any more.');
    throw error instanceof CellaError ? error : failed('it broke off in the middle of its answer');
  } finally {
    answer.destroy();
  }
}

/**
 * The time that an agent has to take all of a stream, beside the time that the provider needs: what its call may come to
 * is kept from the budget meanwhile, and a little now and then would keep it for hours.
 */
function readersPatience(mostMs: number, signal: AbortSignal): (response: ServerResponse) => Promise<void> {
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
