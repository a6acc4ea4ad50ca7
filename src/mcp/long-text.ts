/** Text of any length in bounded memory: its beginning is kept, of the rest only the end, and what is lost is counted. */

const MOST_KEPT = 8 * 1024 * 1024;
const END_KEPT = 64 * 1024;

export class LongText {
  readonly #kept: string[] = [];
  #keptLength = 0;
  #end = '';
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Characters that are not kept. */
  get lost(): number {
    return this.#length - this.#keptLength - this.#end.length;
  }

  append(text: string): void {
    this.#length += text.length;
    const room = MOST_KEPT - this.#keptLength;
    const fits = text.slice(0, room);
    if (fits !== '') this.#kept.push(fits);
    this.#keptLength += fits.length;
    if (text.length > fits.length) this.#end = (this.#end + text.slice(fits.length)).slice(-END_KEPT);
  }

  /** Puts what follows on a line of its own. */
  endLine(): void {
    const last = this.#end || this.#kept.at(-1) || '\n';
    if (!last.endsWith('\n')) this.append('\n');
  }

  /** All that is kept. */
  toString(): string {
    const gap = this.lost > 0 ? gapOf(this.lost, 'were not kept') : '';
    return (this.#kept.join('') + gap + this.#end).toWellFormed();
  }
}

/** The beginning and the end, where it is longer than `most` characters; the middle, and what was lost of it, is counted. */
export function cutMiddle(text: string, most: number, lost = 0): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most * 2) / 3);
  const tail = most - head;
  const middle = gapOf(text.length - most + lost, 'left out');
  return (text.slice(0, head) + middle + text.slice(text.length - tail)).toWellFormed();
}

function gapOf(characters: number, what: string): string {
  return `\n[… ${characters.toLocaleString('en')} characters ${what} …]\n`;
}
