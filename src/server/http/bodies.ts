/** Request bodies within limits, uploads, text responses, and downloads that browsers do not render as pages. */

import type { IncomingMessage } from 'node:http';
import { inTurns, ownTurn } from '../../lib/event-loop.ts';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { MOST_CLIENT_EFFORT, scanInSteps } from '../../lib/json-scanner.ts';
import { toStream } from '../../lib/node-web.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type JsonText, jsonText } from '../../protocol/json-pieces.ts';
import type { ByteReservation } from '../request-limits.ts';

/** A body without a length is admitted in parts of this size. */
const PART_BYTES = 256 * 1024;
/** JSON of this size parses in much less than a millisecond. */
const SMALL = 32 * 1024;
/** Above this size, scanning, decoding and parsing each get their own turn of the event loop. */
const LARGE = 1024 * 1024;
const utf8 = new TextDecoder();

/** Reserves memory until the caller releases it. The announced length is reserved before the body arrives. */
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

/** Undefined if there is no body. */
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
    throw new CellaError('INVALID_REQUEST', 'The body is not JSON.', { cause });
  }
}

/** The chunks of an upload. Admits the announced length at the start, or each part if no length was announced. */
export async function uploadedChunks(
  incoming: IncomingMessage,
  admit: (bytes: number) => Promise<void>,
): Promise<AsyncIterable<Uint8Array>> {
  const announced = incoming.headers['content-length'];
  // At least 1, so that a user without any room is refused before anything is created.
  await admit(Math.max(1, Number(announced ?? 1) || 1));
  // Node reads no further than what was announced.
  return announced === undefined ? metered(incoming, admit) : incoming;
}

/** Reads a body of unknown length, and admits each part before taking it. */
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

/** A client that disconnects midway is an expected error. */
async function* whileThere(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    brokeOff(cause);
  }
}

function brokeOff(cause: unknown): never {
  throw new CellaError('ABORTED', 'The body is incomplete.', { cause });
}

/** Scanning and parsing a large body takes time, so each step waits for a free turn of the event loop. */
async function checkCheapToParse(json: Uint8Array): Promise<void> {
  if (json.length > SMALL) await ownTurn();
  if (!(await inTurns(scanInSteps(json, MOST_CLIENT_EFFORT))))
    throw new CellaError('TOO_LARGE', 'The body has too many parts or levels.');
}

function tooLarge(limitBytes: number): CellaError {
  return new CellaError('TOO_LARGE', `The body is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
}

const texts = new WeakMap<Response, JsonText>();

/** For `textOf`. The text is kept beside the response: a stream body would cost more than everything else. */
export function textResponse(text: JsonText, init: ResponseInit): Response {
  const response = new Response(null, init);
  texts.set(response, text);
  return response;
}

export async function jsonResponse(value: unknown, status = 200): Promise<Response> {
  return textResponse(await jsonText(value), { status, headers: { 'content-type': 'application/json' } });
}

/** Undefined if the body is a stream, or empty. */
export function textOf(response: Response): JsonText | undefined {
  return texts.get(response);
}

interface DownloadOptions {
  /** The length, if known. */
  readonly bytes?: number;
  readonly name: string;
  readonly mediaType?: string;
  /** Ends the connection if reading fails midway. */
  readonly cut: () => void;
}

export function downloadResponse(chunks: AsyncIterable<Uint8Array>, options: DownloadOptions): Response {
  const { bytes, name, mediaType = 'application/octet-stream' } = options;
  const headers = new Headers({
    'content-type': /^[\w.+-]+\/[\w.+-]+(; *charset=[\w-]+)?$/.test(mediaType) ? mediaType : 'application/octet-stream',
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name.toWellFormed())}`,
    // A session's files must not run as pages of this server.
    'content-security-policy': "default-src 'none'; sandbox",
  });
  if (bytes !== undefined) headers.set('content-length', String(bytes));
  return new Response(toStream(exactly(chunks, bytes), options.cut), { headers });
}

/** Cuts a file that grows while it is read at the announced length. */
async function* exactly(chunks: AsyncIterable<Uint8Array>, bytes: number | undefined): AsyncGenerator<Uint8Array> {
  let left = bytes ?? Number.POSITIVE_INFINITY;
  // Reads even if no bytes are wanted: a generator that never started would not close its file.
  for await (const chunk of chunks) {
    if (left <= 0) return;
    yield chunk.byteLength > left ? chunk.subarray(0, left) : chunk;
    left -= chunk.byteLength;
    if (left <= 0) return;
  }
}
