/** Writes and reads the text of a transcript as a JSON string, in slices, never as a whole. */

import { giveWay } from '../lib/event-loop.ts';

/** How many characters to write, and how many bytes to read, at a time. */
const SLICE = 64 * 1024;
const [QUOTE, BACKSLASH, LETTER_U] = [0x22, 0x5c, 0x75];

/** Writes the text as JSON. Returns its number of characters. */
export async function writeTranscript(
  text: string | AsyncIterable<string>,
  write: (bytes: Buffer) => Promise<void>,
): Promise<number> {
  let length = 0;
  await write(Buffer.from([QUOTE]));
  for await (const piece of typeof text === 'string' ? [text] : text) {
    for (let at = 0; at < piece.length; at += SLICE) {
      // A split surrogate pair becomes two escapes, which decode to the pair again.
      await write(Buffer.from(JSON.stringify(piece.slice(at, at + SLICE)).slice(1, -1)));
      await giveWay();
    }
    length += piece.length;
  }
  await write(Buffer.from([QUOTE]));
  return length;
}

/** Reads what `writeTranscript` has written. `damaged` creates the error for any other content. */
export async function* readTranscript(
  chunks: AsyncIterable<Uint8Array>,
  damaged: (cause?: unknown) => Error,
): AsyncGenerator<string> {
  let rest: Buffer | undefined;
  for await (const chunk of chunks) {
    // The first byte is a quote.
    const bytes = rest ? Buffer.concat([rest, chunk]) : Buffer.from(chunk).subarray(1);
    let from = 0;
    for (let to = endOfSlice(bytes, from); to > from; to = endOfSlice(bytes, from)) {
      yield parsed(bytes.toString('utf8', from, to), damaged);
      from = to;
      await giveWay();
    }
    rest = bytes.subarray(from);
  }
  if (rest?.length !== 1 || rest[0] !== QUOTE) throw damaged();
}

function parsed(json: string, damaged: (cause?: unknown) => Error): string {
  try {
    return JSON.parse(`"${json}"`);
  } catch (cause) {
    throw damaged(cause);
  }
}

/** Splits no character and no escape. Keeps the last byte, because it may be the final quote. */
function endOfSlice(bytes: Buffer, from: number): number {
  const most = Math.min(from + SLICE, bytes.length - 1);
  for (let at = from; at < most; ) {
    const distance = bytes.subarray(at, most).indexOf(BACKSLASH);
    if (distance === -1) break;
    const begin = at + distance;
    at = begin + (bytes[begin + 1] === LETTER_U ? 6 : 2);
    if (at > most) return begin;
  }
  let end = most;
  while (end > from && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return end;
}
