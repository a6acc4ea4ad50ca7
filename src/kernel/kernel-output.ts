/** The output streams of a kernel, kept in order with its frames.
 *
 * The kernel writes the execution's marker into a stream at the point where a frame belongs. Text before a marker is
 * delivered before that frame; text after it waits until the frame is handled. Text of an execution that has ended comes
 * tagged with the number of that execution.
 */

import { randomFillSync } from 'node:crypto';
import { StringDecoder } from 'node:string_decoder';
import { settlesWithin, timeoutAfterIo } from '../lib/deadline.ts';
import { KernelLimit } from '../protocol/kernel-frames.ts';
import type { ByteSource, KernelConnection } from './kernel-connection.ts';

export type StreamName = 'stdout' | 'stderr';
/** `owner` is set if the kernel says that the text belongs to an execution other than the running one. */
type Deliver = (name: StreamName, text: string, owner?: number) => boolean;
type OutputMarkers = readonly [stdout: number, stderr: number];

/** How long a frame waits for the output before its marker, while that output is being read. */
const MARKER_TIMEOUT_MS = 1000;
/** How long the output of a dead kernel may take to end. */
const REMAINING_OUTPUT_TIMEOUT_MS = 300;
const ALL_MARKERS: OutputMarkers = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];

export class KernelOutput {
  readonly #stdout: MarkedOutput;
  readonly #stderr: MarkedOutput;
  readonly #onChange: () => void;
  #late: (() => void) | undefined;

  /** `deliver` returns whether to keep reading. `onChange` is called when a waiting frame may be handled. */
  constructor(link: KernelConnection, deliver: Deliver, onChange: () => void) {
    this.#onChange = onChange;
    this.#stdout = new MarkedOutput(link.stdout, (text, owner) => deliver('stdout', text, owner), onChange);
    this.#stderr = new MarkedOutput(link.stderr, (text, owner) => deliver('stderr', text, owner), onChange);
  }

  /** Sets the tag. Nothing is delivered before, because tagged text could not be recognised. */
  open(tag?: Uint8Array): void {
    this.#stdout.open(tag);
    this.#stderr.open(tag);
  }

  begin(marker: Buffer): void {
    this.#stdout.begin(marker);
    this.#stderr.begin(marker);
  }

  /** Whether all output before these markers is delivered. */
  reached(markers: OutputMarkers): boolean {
    if (this.#stdout.reached(markers[0]) && this.#stderr.reached(markers[1])) {
      this.stopWaiting();
      return true;
    }
    this.#late ??= timeoutAfterIo(MARKER_TIMEOUT_MS, () => {
      this.#late = undefined;
      // Waits for a slow reader, but not for a marker that the code has swallowed.
      if (!this.#stdout.paused && !this.#stderr.paused) this.release(markers);
      this.#onChange();
    });
    return false;
  }

  /** Called when the frame of these markers is handled: output after the markers can be delivered. */
  release([out, err]: OutputMarkers): void {
    this.#stdout.release(out);
    this.#stderr.release(err);
  }

  resume(): void {
    this.#stdout.resume();
    this.#stderr.resume();
  }

  /** Called when the execution is over. */
  finish(): void {
    this.#stdout.finish();
    this.#stderr.finish();
  }

  stopWaiting(): void {
    this.#late?.();
    this.#late = undefined;
  }

  /** Delivers what the kernel wrote before it died, which is still in its pipes. */
  async drainRemaining(): Promise<void> {
    this.open();
    this.release(ALL_MARKERS);
    await settlesWithin(Promise.all([this.#stdout.end, this.#stderr.end]), REMAINING_OUTPUT_TIMEOUT_MS);
  }

  close(): void {
    this.#stdout.close();
    this.#stderr.close();
  }
}

const NOTHING = Buffer.alloc(0);

export class MarkedOutput {
  readonly #source: ByteSource;
  readonly #deliver: (text: string, owner?: number) => boolean;
  readonly #onChange: () => void;
  readonly #decoder = new StringDecoder('utf8');
  readonly #over = Promise.withResolvers<void>();
  #opened = false;
  #marker: Buffer | undefined;
  #tag: Uint8Array | undefined;
  #pending: Buffer = NOTHING;
  #seen = 0;
  #released = 0;
  #paused = false;
  #ended = false;
  #working = false;

  /**
   * `deliver` gets the text and the number in its tag, and returns whether to keep reading. `onChange` is called at every
   * marker and at the end.
   */
  constructor(source: ByteSource, deliver: (text: string, owner?: number) => boolean, onChange: () => void) {
    this.#source = source;
    this.#deliver = deliver;
    this.#onChange = onChange;
    source.read(
      (chunk) => this.#feed(chunk),
      () => this.#end(),
    );
  }

  /** Nothing is delivered before this call. */
  open(tag?: Uint8Array): void {
    if (this.#opened) return;
    this.#opened = true;
    this.#tag = tag;
    this.#continueReading();
  }

  begin(marker: Buffer): void {
    this.#marker = marker;
    this.#seen = 0;
    this.#released = 0;
  }

  /**
   * Whether all output before the kernel's `count`-th marker is delivered, or, if it needed no marker, everything that was
   * read.
   */
  reached(count: number): boolean {
    const held = this.#paused && this.#pending.length > 0;
    return this.#ended || (this.#seen >= count && !held);
  }

  /** Whether reading is paused because the reader is slow. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Resolves when no more output will arrive. */
  get end(): Promise<void> {
    return this.#over.promise;
  }

  /** Called when the frame of the `count`-th marker is handled: output after the marker can be delivered. */
  release(count: number): void {
    this.#seen = Math.max(this.#seen, count);
    this.#released = Math.max(this.#released, count);
    this.#continueReading();
  }

  resume(): void {
    this.#paused = false;
    this.#continueReading();
  }

  /** Called when the execution is over: half a character, or the possible start of a marker, is plain text after all. */
  finish(): void {
    this.#marker = undefined;
    this.#released = this.#seen;
    this.#paused = false;
    this.#continueReading();
    const rest = this.#decoder.end();
    if (rest) this.#deliver(rest);
  }

  close(): void {
    this.#source.close();
  }

  #continueReading(): void {
    if (!this.#working && this.#process()) this.#source.resume();
  }

  /** Returns whether to keep reading. The chunk is only valid during the call. */
  #feed(chunk: Buffer): boolean {
    this.#pending = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
    const more = this.#process();
    this.#pending = this.#pending.length > 0 ? Buffer.from(this.#pending) : NOTHING;
    return more;
  }

  get #held(): boolean {
    return !this.#opened || this.#paused || this.#seen > this.#released;
  }

  #process(): boolean {
    this.#working = true;
    while (!this.#held && this.#pending.length > 0) {
      const bytes = this.#pending;
      const sign = nextSign(bytes, this.#marker, this.#tag);
      // At the end of the stream, the possible start of a sign is plain text.
      const at = !sign || (this.#ended && sign.kind === 'part') ? bytes.length : sign.at;
      this.#pending = bytes.subarray(at);
      this.#text(this.#decoder.write(bytes.subarray(0, at)));
      if (sign?.kind === 'marker') this.#pass(bytes.subarray(at + MARKER_BYTES));
      else if (sign?.kind === 'tagged' && !this.#held) this.#unwrap(bytes, sign);
      else break;
    }
    this.#working = false;
    return !this.#held;
  }

  #pass(rest: Buffer): void {
    this.#pending = rest;
    this.#seen++;
    // The callback may handle the marker's frame right away and so advance `released`.
    this.#onChange();
  }

  /** Joins consecutive pieces into one text, because a line is often written in two. */
  #unwrap(bytes: Buffer, first: TaggedText): void {
    const { owner } = first;
    let text = bytes.toString('utf8', first.begin, first.end);
    let { end } = first;
    for (let next = this.#pieceAt(bytes, end); next?.owner === owner; next = this.#pieceAt(bytes, end)) {
      text += bytes.toString('utf8', next.begin, next.end);
      end = next.end;
    }
    this.#pending = bytes.subarray(end);
    this.#text(text, owner);
  }

  #pieceAt(bytes: Buffer, at: number): TaggedText | undefined {
    const sign = this.#tag && taggedTextAt(bytes, at, this.#tag);
    return sign?.kind === 'tagged' ? sign : undefined;
  }

  #text(text: string, owner?: number): void {
    if (text.length > 0 && !this.#deliver(text, owner)) this.#paused = true;
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#continueReading();
    this.#over.resolve();
    this.#onChange();
  }
}

const { markerBytes: MARKER_BYTES, tagBytes: TAG_BYTES, largestPieceBytes: LARGEST_PIECE_BYTES } = KernelLimit;

/** Generates random bytes in bulk: one call costs as much as a thousand bytes. */
const randomBytes = Buffer.alloc(256 * MARKER_BYTES);
let randomBytesUsed = randomBytes.length;

export function newOutputMarker(): Buffer {
  if (randomBytesUsed === randomBytes.length) {
    randomFillSync(randomBytes);
    randomBytesUsed = 0;
  }
  const marker = Buffer.from(randomBytes.subarray(randomBytesUsed, randomBytesUsed + MARKER_BYTES));
  randomBytesUsed += MARKER_BYTES;
  // UTF-8 text never contains 0xff, so a search for the marker rarely has to check twice.
  marker[0] = 0xff;
  return marker;
}

/** The first byte of markers and tags. UTF-8 text never contains it, so for most output the search for it is the only cost. */
const SIGN_FIRST_BYTE = 0xff;
/** The tag, the number of the execution, and the length of its text. */
const HEADER_BYTES = TAG_BYTES + 6;

/** Text of the execution `owner`, from `begin` to `end`. */
interface TaggedText {
  readonly kind: 'tagged';
  readonly at: number;
  readonly owner: number;
  readonly begin: number;
  readonly end: number;
}

/** A sign is a marker, or a tag with its text. A `part` may be the start of a sign that is not complete yet. */
type OutputSign = { readonly kind: 'marker' | 'part'; readonly at: number } | TaggedText;

export function nextSign(
  bytes: Buffer,
  marker: Uint8Array | undefined,
  tag: Uint8Array | undefined,
): OutputSign | undefined {
  if (!marker && !tag) return undefined;
  let at = bytes.indexOf(SIGN_FIRST_BYTE);
  while (at >= 0) {
    const second = bytes[at + 1];
    // The second byte rules out most bytes that merely look like the start of a sign.
    if (second === undefined || second === marker?.[1] || second === tag?.[1]) {
      const sign = signAt(bytes, at, marker, tag);
      if (sign) return sign;
    }
    at = second === SIGN_FIRST_BYTE ? at + 1 : bytes.indexOf(SIGN_FIRST_BYTE, at + 1);
  }
  return undefined;
}

function signAt(
  bytes: Buffer,
  at: number,
  marker: Uint8Array | undefined,
  tag: Uint8Array | undefined,
): OutputSign | undefined {
  if (marker && begins(bytes, at, marker)) return { kind: at + marker.length > bytes.length ? 'part' : 'marker', at };
  return tag && taggedTextAt(bytes, at, tag);
}

/** The tagged text that begins at this byte, if any. */
export function taggedTextAt(bytes: Buffer, at: number, tag: Uint8Array): OutputSign | undefined {
  if (!begins(bytes, at, tag)) return undefined;
  const begin = at + HEADER_BYTES;
  if (begin > bytes.length) return { kind: 'part', at };
  const end = begin + bytes.readUInt16LE(at + TAG_BYTES + 4);
  // A kernel writes each piece as a whole, so longer text is not from the kernel.
  if (end - at > LARGEST_PIECE_BYTES) return undefined;
  if (end > bytes.length) return { kind: 'part', at };
  return { kind: 'tagged', at, owner: bytes.readUInt32LE(at + TAG_BYTES), begin, end };
}

/** Whether the available bytes match this sign. */
function begins(bytes: Buffer, at: number, sign: Uint8Array): boolean {
  const length = Math.min(sign.length, bytes.length - at);
  return bytes.compare(sign, 0, length, at, at + length) === 0;
}
