/** Reads the body of a request, up to a limit: what is longer is refused before it is in memory. */

import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { isLight, MOST_CLIENT_EFFORT } from '../../protocol/light-json.ts';
import type { Hold } from '../held-bytes.ts';

/** Of a body without a length: leave is asked for so much at a time. */
const PART_BYTES = 256 * 1024;
const LARGE = 1024 * 1024;

/** What it takes of memory is held until the caller lets go of it: what is announced at once, whenever it comes. */
export async function readText(request: Request, limitBytes: number, hold: Hold): Promise<string> {
  const announced = request.headers.get('content-length');
  if (announced !== null && !request.headers.has('transfer-encoding')) {
    // Node reads no further than what was announced.
    if (Number(announced) > limitBytes) throw tooLarge(limitBytes);
    hold.take(Number(announced));
    return await request.text().catch(brokeOff);
  }
  if (!request.body) return '';
  const gathered = new GatheredBytes();
  for await (const chunk of whileThere(request.body)) {
    if (gathered.size + chunk.byteLength > limitBytes) throw tooLarge(limitBytes);
    hold.take(chunk.byteLength);
    gathered.push(chunk);
  }
  return gathered.bytes().toString('utf8');
}

/** Undefined where there is no body. */
export async function readJson(request: Request, limitBytes: number, hold: Hold): Promise<unknown> {
  const text = await readText(request, limitBytes, hold);
  if (text === '') return undefined;
  await turnFor(text);
  checkLight(text);
  await turnFor(text);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CellaError('INVALID_REQUEST', 'The body is no JSON.', { cause });
  }
}

/** Of a large body, each step has a turn of the event loop to itself: decoding, looking through and parsing all take a while. */
async function turnFor(text: string): Promise<void> {
  if (text.length > LARGE) await nextTurn();
}

/** The same request, once it is known that its JSON may be parsed by whomever. */
export async function lightRequest(request: Request, limitBytes: number, hold: Hold): Promise<Request> {
  const { url, method, headers, signal } = request;
  if (method !== 'POST') return request;
  const body = await readText(request, limitBytes, hold);
  await turnFor(body);
  checkLight(body);
  return new Request(url, { method, headers, signal, body });
}

/** What a client uploads, once there is room for it: at the start for as much as it announces, else as it comes. */
export async function upload(
  incoming: IncomingMessage,
  admit: (bytes: number) => Promise<void>,
): Promise<AsyncIterable<Uint8Array>> {
  const announced = incoming.headers['content-length'];
  // At least 1: whoever has no room at all is told before anything is made.
  await admit(Math.max(1, Number(announced ?? 1) || 1));
  // Node reads no further than what was announced.
  return announced === undefined ? metered(incoming, admit) : incoming;
}

/** Bytes whose number nobody has announced, with leave for each part of them before it is taken. */
async function* metered(
  chunks: AsyncIterable<Uint8Array>,
  admit: (bytes: number) => Promise<void>,
): AsyncGenerator<Uint8Array> {
  let unasked = 0;
  for await (const chunk of chunks) {
    unasked += chunk.byteLength;
    if (unasked >= PART_BYTES) {
      await admit(unasked);
      unasked = 0;
    }
    yield chunk;
  }
  if (unasked > 0) await admit(unasked);
}

/** Whoever leaves in the middle is nothing unforeseen. */
async function* whileThere(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    brokeOff(cause);
  }
}

function brokeOff(cause: unknown): never {
  throw new CellaError('ABORTED', 'The body broke off.', { cause });
}

function checkLight(json: string): void {
  if (!isLight(json, MOST_CLIENT_EFFORT))
    throw new CellaError('TOO_LARGE', 'The body has too many parts, or is too deep.');
}

function tooLarge(limitBytes: number): CellaError {
  return new CellaError('TOO_LARGE', `The body is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
}
