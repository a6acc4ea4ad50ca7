/** Splits a stream of bytes into lines: of limited length, or as the JSON lines of a Response. Works in browsers. */

import { tryParseJson } from './json-scanner.ts';

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

export async function* jsonLines(response: Response): AsyncGenerator<unknown, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunksOf(response)) {
    // A long line comes in many parts: search each part only once.
    const text = decoder.decode(chunk, { stream: true });
    if (!text.includes('\n')) {
      rest += text;
      continue;
    }
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    // An empty line is a heartbeat.
    for (const line of lines) if (line !== '') yield tryParseJson(line);
  }
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
