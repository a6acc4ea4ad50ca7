/** Keeps the beginning and the end of a stream of text, and counts what it leaves out between them. */

export class Capture {
  readonly #limit: number;
  #head = '';
  #tail: string[] = [];
  #tailLength = 0;
  #cut = 0;

  /** `limit` counts characters, which for plain text are bytes. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  push(text: string): void {
    const half = Math.ceil(this.#limit / 2);
    const room = this.#tail.length === 0 ? half - this.#head.length : 0;
    if (text.length <= room) {
      this.#head += text;
      return;
    }
    if (room > 0) this.#head += text.slice(0, room);
    const rest = room > 0 ? text.slice(room) : text;
    this.#tail.push(rest);
    this.#tailLength += rest.length;
    this.#shrink(this.#limit - half);
  }

  #shrink(room: number): void {
    while (this.#tailLength > room) {
      const [first = ''] = this.#tail;
      const over = this.#tailLength - room;
      if (first.length <= over) {
        this.#tail.shift();
        this.#tailLength -= first.length;
        this.#cut += Buffer.byteLength(first);
      } else {
        // A long piece is cut only when it is far over, so that small pieces behind it do not cut it each time.
        if (over < 65_536 && room >= 65_536) return;
        this.#cut += Buffer.byteLength(first.slice(0, over));
        this.#tail[0] = first.slice(over);
        this.#tailLength -= over;
      }
    }
  }

  /** Characters that are kept. */
  get length(): number {
    return this.#head.length + this.#tailLength;
  }

  /** Bytes that the text leaves out. */
  get cutBytes(): number {
    return this.#cut;
  }

  get text(): string {
    const tail = this.#tail.join('');
    return this.#cut === 0 ? this.#head + tail : `${this.#head}\n… ${this.#cut} bytes are left out here …\n${tail}`;
  }

  /** The last characters, for a death's last words. */
  end(count: number): string {
    return (this.#head + this.#tail.join('')).slice(-count);
  }
}
