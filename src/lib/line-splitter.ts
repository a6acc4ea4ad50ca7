/** Splits a stream of bytes into lines: of limited length, or as the JSON lines of a Response. Works in browsers. */

import { tryParseJson } from './json-scanner.ts';

/** `cut`: it grew past the limit; all of it is thrown away, up to its end. */
export type Line = { readonly kind: 'line'; readonly bytes: Uint8Array } | { readonly kind: 'cut' };

const NEWLINE = 0x0a;
const CUT: Line = { kind: 'cut' };

export class LineSplitter {
  readonly #limit: number;
  /** The beginning of a line whose end has not come, in a buffer that grows by doubling. */
  #held = new Uint8Array(0);
  #length = 0;
  #skipping = false;

  /** @param limit bytes of a line, its newline not counted */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Lines are good until the next call. */
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

  /** What is left where the stream has ended: a line without its newline, or nothing. */
  end(): Line | undefined {
    const rest = this.#length > 0 && !this.#skipping;
    return rest ? this.#take(new Uint8Array(0), true) : undefined;
  }

  /** Bytes that are kept for a line to come. */
  get heldBytes(): number {
    return this.#length;
  }

  #take(piece: Uint8Array, isLast: boolean): Line | undefined {
    if (this.#skipping) {
      this.#skipping = !isLast;
      return undefined;
    }
    if (this.#length + piece.length > this.#limit) {
      this.#forget();
      this.#skipping = !isLast;
      return CUT;
    }
    if (!isLast) {
      this.#hold(piece);
      return undefined;
    }
    if (this.#length === 0) return { kind: 'line', bytes: piece };
    this.#hold(piece);
    const bytes = this.#held.subarray(0, this.#length);
    this.#forget();
    return { kind: 'line', bytes };
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

  #forget(): void {
    this.#held = new Uint8Array(0);
    this.#length = 0;
  }
}

export async function* jsonLines(response: Response): AsyncGenerator<unknown, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunksOf(response)) {
    // A line that is long comes in many parts: they are looked through once.
    const text = decoder.decode(chunk, { stream: true });
    if (!text.includes('\n')) {
      rest += text;
      continue;
    }
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    // An empty one is a sign of life.
    for (const line of lines) if (line !== '') yield tryParseJson(line);
  }
}

/** Not every browser lets one iterate over a body. */
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
    await reader.cancel().catch(() => {}); // it has broken already
  }
}
