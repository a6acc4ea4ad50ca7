/** Splits a stream of bytes into lines, or into the values of JSON lines. Works in browsers. */

import { isCheapToParse, tryParseJson } from './json-scanner.ts';

/** `cut`: the line exceeded the limit. `bytes` are its first bytes; the rest is dropped. */
export interface Line {
  readonly kind: 'line' | 'cut';
  readonly bytes: Uint8Array;
}

const NEWLINE = 0x0a;

export class LineSplitter {
  readonly #limit: number;
  /** The beginning of an unfinished line, in a buffer that grows by doubling. */
  #held = new Uint8Array(0);
  #length = 0;
  #skipping = false;

  /** @param limit bytes per line, without its newline */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The lines are valid until the next call. */
  push(chunk: Uint8Array): Line[] {
    const lines: Line[] = [];
    let at = 0;
    while (at < chunk.length) {
      const newline = chunk.indexOf(NEWLINE, at);
      const end = newline === -1 ? chunk.length : newline;
      const line = this.#take(chunk.subarray(at, end), newline !== -1);
      if (line) lines.push(line);
      at = end + 1;
    }
    return lines;
  }

  /** Call it at the end of the stream. Returns the last line if it has no newline. */
  end(): Line | undefined {
    const rest = this.#length > 0 && !this.#skipping;
    return rest ? this.#take(new Uint8Array(0), true) : undefined;
  }

  /** Bytes held of an unfinished line. */
  get heldBytes(): number {
    return this.#length;
  }

  #take(piece: Uint8Array, isLast: boolean): Line | undefined {
    if (this.#skipping) {
      this.#skipping = !isLast;
      return undefined;
    }
    if (this.#length + piece.length > this.#limit) {
      this.#skipping = !isLast;
      this.#hold(piece.subarray(0, this.#limit - this.#length));
      return { kind: 'cut', bytes: this.#release() };
    }
    if (!isLast) {
      this.#hold(piece);
      return undefined;
    }
    if (this.#length === 0) return { kind: 'line', bytes: piece };
    this.#hold(piece);
    return { kind: 'line', bytes: this.#release() };
  }

  #hold(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#held.length) {
      const larger = new Uint8Array(Math.min(this.#limit, Math.max(1024, length, this.#held.length * 2)));
      larger.set(this.#held.subarray(0, this.#length));
      this.#held = larger;
    }
    this.#held.set(piece, this.#length);
    this.#length = length;
  }

  #release(): Uint8Array {
    const bytes = this.#held.subarray(0, this.#length);
    this.#held = new Uint8Array(0);
    this.#length = 0;
    return bytes;
  }
}

/** An unfinished last line is dropped: the connection broke. */
export async function* jsonLines(response: Response): AsyncGenerator<unknown, void, undefined> {
  const lines = new LineSplitter(Number.POSITIVE_INFINITY);
  const decoder = new TextDecoder();
  for await (const chunk of chunksOf(response)) {
    for (const { bytes } of lines.push(chunk)) {
      // An empty line is a heartbeat.
      if (bytes.length > 0) yield tryParseJson(decoder.decode(bytes));
    }
  }
}

export type LineProblem = 'too long' | 'expensive' | 'not JSON';

/** The JSON of each line that is not blank. For a bad line, throws the error that `problem` makes. */
export async function* boundedJsonLines(
  input: AsyncIterable<Uint8Array>,
  limit: number,
  problem: (kind: LineProblem) => Error,
): AsyncGenerator<unknown, void, undefined> {
  const splitter = new LineSplitter(limit);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  function* parse({ kind, bytes }: Line): Generator<unknown> {
    if (kind === 'cut') throw problem('too long');
    if (!isCheapToParse(bytes)) throw problem('expensive');
    try {
      const text = decoder.decode(bytes);
      if (text.trim() !== '') yield JSON.parse(text);
    } catch {
      // No cause: the parser's message would quote the line, which may contain a key.
      throw problem('not JSON');
    }
  }
  for await (const chunk of input) for (const line of splitter.push(chunk)) yield* parse(line);
  const last = splitter.end();
  if (last) yield* parse(last);
}

/** Not every browser can iterate over a response body. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {}); // the stream is already broken
  }
}
