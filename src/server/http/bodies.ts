/** Bodies: requests read within limits, uploads, and downloads that no browser shows as a page. */

import type { IncomingMessage } from 'node:http';
import { ownTurn } from '../../lib/event-loop.ts';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { isCheapToParse, MOST_CLIENT_EFFORT } from '../../lib/json-scanner.ts';
import { toStream } from '../../lib/node-web.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ByteReservation } from '../request-limits.ts';

/** Of a body without a length: leave is asked for so much at a time. */
const PART_BYTES = 256 * 1024;
/** Parsed in much less than a millisecond. */
const SMALL = 32 * 1024;
/** Each step has a turn of the event loop to itself: looking through, decoding, parsing. */
const LARGE = 1024 * 1024;
const utf8 = new TextDecoder();

/** What it takes of memory is held until the caller lets go of it: what is announced at once, whenever it comes. */
async function readBytes(
  request: Request,
  limitBytes: number,
  hold: ByteReservation,
): Promise<Uint8Array<ArrayBuffer>> {
  const announced = request.headers.get('content-length');
  if (announced !== null && !request.headers.has('transfer-encoding')) {
    // Node reads no further than what was announced.
    if (Number(announced) > limitBytes) throw tooLarge(limitBytes);
    hold.add(Number(announced));
    return new Uint8Array(await request.arrayBuffer().catch(brokeOff));
  }
  if (!request.body) return new Uint8Array();
  const gathered = new GatheredBytes();
  for await (const chunk of whileThere(request.body)) {
    if (gathered.size + chunk.byteLength > limitBytes) throw tooLarge(limitBytes);
    hold.add(chunk.byteLength);
    gathered.push(chunk);
  }
  return gathered.bytes();
}

/** Undefined where there is no body. */
export async function readJson(request: Request, limitBytes: number, hold: ByteReservation): Promise<unknown> {
  const bytes = await readBytes(request, limitBytes, hold);
  if (bytes.length === 0) return undefined;
  await checkCheapToParse(bytes);
  if (bytes.length > LARGE) await ownTurn();
  const text = utf8.decode(bytes);
  if (bytes.length > LARGE) await ownTurn();
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CellaError('INVALID_REQUEST', 'The body is no JSON.', { cause });
  }
}

/** The same request, once it is known that its JSON may be parsed by whomever. */
export async function checkedRequest(request: Request, limitBytes: number, hold: ByteReservation): Promise<Request> {
  const { url, method, headers, signal } = request;
  if (method !== 'POST') return request;
  const body = await readBytes(request, limitBytes, hold);
  await checkCheapToParse(body);
  return new Request(url, { method, headers, signal, body });
}

/** What a client uploads, once there is room for it: at the start for as much as it announces, else as it comes. */
export async function uploadedChunks(
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

/** Looking through a body and parsing it take a while, unless it is small: the next one waits until others had their turn. */
async function checkCheapToParse(json: Uint8Array): Promise<void> {
  if (json.length > SMALL) await ownTurn();
  if (!isCheapToParse(json, MOST_CLIENT_EFFORT))
    throw new CellaError('TOO_LARGE', 'The body has too many parts, or is too deep.');
}

function tooLarge(limitBytes: number): CellaError {
  return new CellaError('TOO_LARGE', `The body is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
}

interface DownloadOptions {
  /** How many there will be, where that is known. */
  readonly bytes?: number;
  readonly name: string;
  readonly mediaType?: string;
  /** Ends the connection where reading fails half way. */
  readonly cut: () => void;
}

export function downloadResponse(chunks: AsyncIterable<Uint8Array>, options: DownloadOptions): Response {
  const { bytes, name, mediaType = 'application/octet-stream' } = options;
  const headers = new Headers({
    'content-type': /^[\w.+-]+\/[\w.+-]+(; *charset=[\w-]+)?$/.test(mediaType) ? mediaType : 'application/octet-stream',
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name.toWellFormed())}`,
    // What a session has made must not act as a page of this server.
    'content-security-policy': "default-src 'none'; sandbox",
  });
  if (bytes !== undefined) headers.set('content-length', String(bytes));
  return new Response(toStream(exactly(chunks, bytes), options.cut), { headers });
}

/** A file that grows while it is read is cut at what was announced. */
async function* exactly(chunks: AsyncIterable<Uint8Array>, bytes: number | undefined): AsyncGenerator<Uint8Array> {
  let left = bytes ?? Number.POSITIVE_INFINITY;
  // Read even where nothing is wanted of it: only what was begun is closed.
  for await (const chunk of chunks) {
    if (left <= 0) return;
    yield chunk.byteLength > left ? chunk.subarray(0, left) : chunk;
    left -= chunk.byteLength;
    if (left <= 0) return;
  }
}
