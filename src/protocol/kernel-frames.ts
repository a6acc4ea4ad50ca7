/**
 * Frames between host and Python (`length u32, type u8, id u32, payload`, little endian), and the other numbers that both sides
 * agree on: descriptors, exit codes and limits. See docs/internals/kernel-protocol.md.
 */

export const HEADER_BYTES = 9;
/** The memory that a waiting frame takes in addition to its payload. */
export const FRAME_COST = 256;

const letter = (text: string): number => text.charCodeAt(0);

/** Upper case: to Python. Lower case: to the host. python/cella_kernel/protocol.py has the same letters; a test compares them. */
export const FrameType = {
  open: letter('O'),
  attach: letter('A'),
  join: letter('j'),
  start: letter('S'),
  interrupt: letter('I'),
  kill: letter('K'),
  dropSnapshot: letter('D'),
  measure: letter('M'),
  opened: letter('o'),
  attached: letter('a'),
  failed: letter('f'),
  died: letter('d'),
  snapshotLost: letter('g'),
  measured: letter('m'),
  execute: letter('X'),
  request: letter('Q'),
  reply: letter('Y'),
  snapshot: letter('T'),
  save: letter('V'),
  load: letter('L'),
  typed: letter('B'),
  resize: letter('Z'),
  ended: letter('E'),
  hello: letter('h'),
  result: letter('r'),
  display: letter('p'),
  answer: letter('q'),
  call: letter('c'),
  cancel: letter('x'),
  snapshotTaken: letter('t'),
  part: letter('v'),
  saved: letter('w'),
  loaded: letter('l'),
} as const;

export interface Frame {
  readonly type: number;
  readonly id: number;
  readonly payload: Buffer;
}

/** The peer violated the protocol. The reader must drop the connection. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

export function encodeFrame(type: number, id: number, payload: Uint8Array | string = ''): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload) : payload;
  const frame = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  frame.writeUInt32LE(body.length, 0);
  frame.writeUInt8(type, 4);
  frame.writeUInt32LE(id, 5);
  frame.set(body, HEADER_BYTES);
  return frame;
}

/** Marked as pure, so that bundles for browsers, which have no Buffer, can leave it out. */
const NOTHING = /* @__PURE__ */ Buffer.alloc(0);
const LEAST_GATHERED = 64;

/**
 * Splits a stream of chunks into frames; a frame can span chunks. A type that is not in `largest`, or a length over
 * its value, throws at once, before anything is kept.
 */
export class FrameDecoder {
  readonly #largest: ReadonlyMap<number, number>;
  /** The received part of an incomplete frame. Takes little more memory than its bytes, even if the chunks are small. */
  #gathered: Buffer = NOTHING;
  #have = 0;
  #need = HEADER_BYTES;
  #header: { type: number; id: number } | undefined;

  constructor(largest: ReadonlyMap<number, number>) {
    this.#largest = largest;
  }

  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let rest = chunk;
    while (rest.length > 0 || (this.#header && this.#need === 0)) {
      const piece = rest.subarray(0, this.#need - this.#have);
      rest = rest.subarray(piece.length);
      const whole = this.#take(piece);
      if (!whole) break;
      if (this.#header) {
        frames.push({ ...this.#header, payload: whole });
        this.#header = undefined;
        this.#need = HEADER_BYTES;
      } else {
        this.#begin(whole);
      }
    }
    return frames;
  }

  #begin(header: Buffer): void {
    const length = header.readUInt32LE(0);
    const type = header.readUInt8(4);
    const largest = this.#largest.get(type);
    if (largest === undefined) throw new FrameError(`a frame of the unknown type ${type}`);
    if (length > largest) throw new FrameError(`a frame of ${length} bytes; the limit is ${largest}`);
    this.#header = { type, id: header.readUInt32LE(5) };
    this.#need = length;
  }

  /** Returns the whole frame if this piece completes it. */
  #take(piece: Buffer): Buffer | undefined {
    if (piece.length === this.#need) return piece;
    const have = this.#have + piece.length;
    if (have > this.#gathered.length) this.#grow(Math.min(this.#need, Math.max(2 * have, LEAST_GATHERED)));
    piece.copy(this.#gathered, this.#have);
    this.#have = have;
    if (have < this.#need) return undefined;
    const whole = this.#gathered.subarray(0, have);
    this.#gathered = NOTHING;
    this.#have = 0;
    return whole;
  }

  #grow(size: number): void {
    const larger = Buffer.allocUnsafe(size);
    this.#gathered.copy(larger, 0, 0, this.#have);
    this.#gathered = larger;
  }
}

const KIB = 1024;
const MIB = 1024 * KIB;

/** The descriptors of a kernel. */
export const KernelFd = {
  control: 256,
  stdout: 257,
  stderr: 258,
  stdoutReader: 259,
  stderrReader: 260,
  registration: 261,
} as const;

/** Exit codes of Cella's own processes if they cannot continue. */
export const ExitCode = {
  failed: 70,
  supervisorFailed: 71,
  /** The kernel had no memory left for its own work. */
  outOfMemory: 72,
  snapshotFailed: 73,
  /** The kernel could not be isolated or set up, and has run no code. */
  notIsolated: 74,
  /** A program could not be started. Other programs can exit with this code, too. */
  notStarted: 127,
} as const;

export const KernelLimit = {
  /** How many open files a process needs to become a kernel. */
  leastOpenFiles: 576,
  /** Snapshots in one sandbox. */
  mostSnapshots: 128,
  /** Memory for pid 1, in addition to the limit of the code. */
  supervisorMemoryBytes: 32 * MIB,

  /** In the output: orders it with frames. */
  markerBytes: 16,
  /** In the output: begins a piece from an execution that has ended. */
  tagBytes: 16,
  /** One tagged piece, with its tag. */
  largestPieceBytes: 4096,

  /** Limits of one value: bytes, items of lists and keys of dicts in total, and levels. */
  largestValueBytes: 8 * MIB,
  mostValueItems: 50_000,
  deepestValue: 200,
  /** The most decimal digits of an integer. */
  mostIntegerDigits: 10_000,
  /** This many bits of a long integer count as one item. */
  integerItemBits: 90,
  longestRepr: MIB,

  /** The most characters of the name of a variable, a class or a MIME type. */
  longestName: 255,
  longestMessage: 64 * KIB,
  longestTraceback: 256 * KIB,
  longestPrompt: 64 * KIB,
  /** The most MIME types of one bundle. */
  mostMimeTypes: 100,

  /** Calls that a kernel keeps open at a time. */
  mostCalls: 64,
  largestCallBytes: 2 * MIB,
  /** A call that carries a piece of a file. */
  largestFileCallBytes: 9 * MIB,
  largestAnswerBytes: 4 * MIB,

  /** The most variables of one checkpoint. */
  mostVariables: 10_000,
  /** The most bytes of the names of all its variables. */
  mostNameBytes: MIB,
  /** Lost variables that are listed; the others are counted. */
  mostLost: 100,
  /** One part of a segment, without its header. */
  partBytes: 8 * MIB,
} as const;
