/**
 * What MCP servers may send, message by message. The SDK parses and checks each in one go, so a message has a limited size,
 * few parts, and a turn of the event loop that no other such work uses. Servers that send more are given up.
 */

import { deserializeMessage, type FetchLike, type JSONRPCMessage } from '@modelcontextprotocol/client';
import { giveWay, inTurns, ownTurn } from '../../lib/event-loop.ts';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { MOST_CLIENT_EFFORT, scanInSteps } from '../../lib/json-scanner.ts';
import { LineSplitter } from '../../lib/line-splitter.ts';

const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Parsed in much less than a millisecond. */
const SMALL_BYTES = 32 * 1024;
/** How many lines on stdout may not be messages, as servers print there by mistake. */
const MOST_NOISE = 1000;
/** The most bytes of one event over HTTP. */
const MOST_LINES = 1000;

/** A message that Cella refuses. The connection to the server ends. */
class RefusedMessage extends Error {}

/** Call right before parsing the message. */
async function checkMessage(json: Uint8Array): Promise<void> {
  if (json.length <= SMALL_BYTES) return await giveWay();
  await ownTurn();
  if (!(await inTurns(scanInSteps(json, MOST_CLIENT_EFFORT))))
    throw new RefusedMessage('it sent a message with too many parts or levels');
  await ownTurn();
}

const tooLarge = (): Error =>
  new RefusedMessage(`it sent a message of more than ${MOST_MESSAGE_BYTES / 1024 / 1024} MB`);

/** The messages of a program, one per line. Throws if the program does not speak MCP. */
export async function* messagesOf(output: AsyncIterable<Uint8Array>): AsyncGenerator<JSONRPCMessage> {
  const lines = new LineSplitter(MOST_MESSAGE_BYTES);
  let noise = 0;
  for await (const chunk of output) {
    for (const line of lines.push(chunk)) {
      if (line.kind === 'cut') throw tooLarge();
      await checkMessage(line.bytes);
      // Trims only JSON whitespace: everything that is parsed must have been scanned.
      const text = Buffer.from(line.bytes.buffer, line.bytes.byteOffset, line.bytes.byteLength).toString();
      const message = /^[ \t\r]*\{/.test(text) ? parsed(text) : undefined;
      if (message) yield message;
      else if (text.trim() !== '' && ++noise > MOST_NOISE) {
        throw new Error(`it wrote lines to stdout that are not messages: ${JSON.stringify(text.slice(0, 80))}`);
      }
    }
  }
}

function parsed(text: string): JSONRPCMessage | undefined {
  try {
    return deserializeMessage(text);
  } catch {
    return undefined; // not a message
  }
}

/** `fetch` for a server over HTTP. Calls `refuse` with the reason if an answer exceeds a limit. */
export function boundedFetch(refuse: (error: Error) => void): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    const { body, ok, status, statusText, url: at, redirected } = response;
    if (!body) return response;
    // Gives the SDK the type that was parsed here. The SDK does not check the type of a stream that it requested (GET).
    const type = response.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
    const isEvents = ok && ((init?.method ?? 'GET') === 'GET' || type === EVENTS);
    const headers = new Headers(response.headers);
    headers.set('content-type', type);
    const chunks = isEvents ? eventsOf(body) : wholeOf(body);
    const bounded = new Response(ReadableStream.from(refusing(chunks, refuse)), { status, statusText, headers });
    return Object.defineProperties(bounded, { url: { value: at }, redirected: { value: redirected } });
  };
}

const EVENTS = 'text/event-stream';

async function* refusing(
  chunks: AsyncIterable<Uint8Array>,
  refuse: (error: Error) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    if (error instanceof RefusedMessage) refuse(error);
    throw error;
  }
}

async function* wholeOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const gathered = new GatheredBytes();
  for await (const chunk of body) gather(gathered, chunk);
  await checkMessage(gathered.bytes());
  yield gathered.bytes();
}

/** Yields each event with its empty line: otherwise, many small events in a chunk would be parsed in one go. */
async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const ends = new EventEnds();
  let event = new GatheredBytes();
  for await (const chunk of body) {
    let from = 0;
    for (const end of ends.in(chunk)) {
      gather(event, chunk.subarray(from, end));
      yield await checkedEvent(event.bytes());
      event = new GatheredBytes();
      from = end;
    }
    gather(event, chunk.subarray(from));
  }
  // An event without an end is ignored.
}

function gather(gathered: GatheredBytes, chunk: Uint8Array): void {
  if (gathered.size + chunk.length > MOST_MESSAGE_BYTES) throw tooLarge();
  gathered.push(chunk);
}

/** From a large event, passes on only the relevant lines: everything that is parsed must have been scanned. */
async function checkedEvent(event: Buffer): Promise<Uint8Array> {
  if (event.length <= SMALL_BYTES) {
    await giveWay();
    // An LF may follow a CR: with a CR at the end, the SDK would wait for the next event before it reads this one.
    return event.at(-1) === CR ? Buffer.concat([event, LINE_END]) : event;
  }
  await ownTurn();
  // Latin-1 maps every byte to a character. The first event may begin with a byte order mark.
  const text = event.toString('latin1').replace(/^\xef\xbb\xbf/, '');
  const lines = text.split(/\r\n|\n|\r/, MOST_LINES + 1);
  if (lines.length > MOST_LINES) throw new RefusedMessage(`it sent an event of more than ${MOST_LINES} lines`);
  const fields = lines.filter((line) => /^(?:data|event|id|retry):/.test(line));
  const data = fields.filter((line) => line.startsWith('data:')).map((line) => line.slice('data:'.length));
  await checkMessage(Buffer.from(data.join('\n'), 'latin1'));
  return Buffer.from(`${fields.join('\n')}\n\n`, 'latin1');
}

const [LF, CR] = [10, 13];
const LINE_END = Buffer.from([LF]);

/** Finds the ends of events: an empty line. A line ends with LF, CR or both. */
class EventEnds {
  #isEmpty = true;
  #afterCr = false;

  /** The end is in the next chunk. */
  *in(chunk: Uint8Array): Generator<number> {
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      const endsBefore = this.#afterCr && byte !== LF;
      if (endsBefore && this.#endsEvent()) yield at;
      this.#afterCr = byte === CR;
      if (byte === LF && this.#endsEvent()) yield at + 1;
      if (byte !== LF && byte !== CR) this.#isEmpty = false;
    }
  }

  /** Whether the previous byte ended a line. */
  #endsEvent(): boolean {
    const was = this.#isEmpty;
    this.#isEmpty = true;
    return was;
  }
}
