/** Signs between the text of an output stream: marks of the execution that runs, and labelled pieces of those before. */

import { LABEL_BYTES } from '../protocol/kernel.ts';

/** Marks and labels begin with it, and no UTF-8 text holds it: to look for it is all that most output costs. */
const FIRST = 0xff;
/** Behind the label: the number of the execution, and how long its text is. */
const HEADER_BYTES = LABEL_BYTES + 6;
/** A kernel writes each piece as a whole; what is longer was not written by it. */
const LARGEST_PIECE = 4096;

/** Text of the execution `owner`, from `begin` to `end`. */
export interface Labelled {
  readonly kind: 'labelled';
  readonly at: number;
  readonly owner: number;
  readonly begin: number;
  readonly end: number;
}

/** A `part` may be the beginning of a sign whose rest has not come. */
export type Sign = { readonly kind: 'mark' | 'part'; readonly at: number } | Labelled;

export function nextSign(bytes: Buffer, mark: Uint8Array | undefined, label: Uint8Array | undefined): Sign | undefined {
  if (!mark && !label) return undefined;
  let at = bytes.indexOf(FIRST);
  while (at >= 0) {
    const second = bytes[at + 1];
    // Bytes that only begin like a sign are told by the second one: there may be many of them.
    if (second === undefined || second === mark?.[1] || second === label?.[1]) {
      const sign = signAt(bytes, at, mark, label);
      if (sign) return sign;
    }
    at = second === FIRST ? at + 1 : bytes.indexOf(FIRST, at + 1);
  }
  return undefined;
}

function signAt(
  bytes: Buffer,
  at: number,
  mark: Uint8Array | undefined,
  label: Uint8Array | undefined,
): Sign | undefined {
  if (mark && begins(bytes, at, mark)) return { kind: at + mark.length > bytes.length ? 'part' : 'mark', at };
  return label && pieceAt(bytes, at, label);
}

/** A labelled piece that begins just there. */
export function pieceAt(bytes: Buffer, at: number, label: Uint8Array): Sign | undefined {
  if (!begins(bytes, at, label)) return undefined;
  const begin = at + HEADER_BYTES;
  if (begin > bytes.length) return { kind: 'part', at };
  const end = begin + bytes.readUInt16LE(at + LABEL_BYTES + 4);
  if (end - at > LARGEST_PIECE) return undefined;
  if (end > bytes.length) return { kind: 'part', at };
  return { kind: 'labelled', at, owner: bytes.readUInt32LE(at + LABEL_BYTES), begin, end };
}

/** Whether this sign is there, as far as the bytes go. */
function begins(bytes: Buffer, at: number, sign: Uint8Array): boolean {
  const length = Math.min(sign.length, bytes.length - at);
  return bytes.compare(sign, 0, length, at, at + length) === 0;
}
