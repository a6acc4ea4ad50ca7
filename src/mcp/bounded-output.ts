/** What one execution prints and shows, in bounded memory: text with its middle cut out, and images that a model can read. */

import type { ImageContent } from '@modelcontextprotocol/server';
import type { ExecutionEvent, MimeBundle } from '../protocol/execution-events.ts';

/** Text forms of a value, the most telling first. */
const TEXT_TYPES = ['text/plain', 'text/markdown', 'text/html', 'image/svg+xml', 'application/json'];

/** What one execution prints and shows, in order. */
export class BoundedOutput {
  readonly text = new HeadTailBuffer();
  readonly images = new ImageCollector();

  take(event: ExecutionEvent): void {
    if (event.type === 'stdout' || event.type === 'stderr') this.text.append(event.text);
    else if (event.type === 'display') this.#line(this.show(event.data));
  }

  /** Keeps the image of a value, and returns the text that stands for it. */
  show(data: MimeBundle): string | undefined {
    const image = this.images.take(data);
    if (image !== undefined) return image;
    const found = TEXT_TYPES.map((type) => data[type]).find((form) => typeof form === 'string');
    return typeof found === 'string' ? found : `[${Object.keys(data).join(', ')}: cannot be shown here]`;
  }

  #line(text: string | undefined): void {
    if (text === undefined) return;
    this.text.endLine();
    this.text.append(`${text}\n`);
  }
}

const MAX_HEAD = 8 * 1024 * 1024;
const MAX_TAIL = 64 * 1024;

/** Text of any length: keeps its head and its tail, and counts what is lost between them. */
export class HeadTailBuffer {
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
    const room = MAX_HEAD - this.#keptLength;
    const fits = text.slice(0, room);
    if (fits !== '') this.#kept.push(fits);
    this.#keptLength += fits.length;
    if (text.length > fits.length) this.#end = (this.#end + text.slice(fits.length)).slice(-MAX_TAIL);
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

/** What models can look at. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const MAX_IMAGES = 12;
/** Of base64, in all: clients take messages of up to 10 MB. */
const MAX_BASE64_CHARACTERS = 5_000_000;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

class ImageCollector {
  readonly #content: ImageContent[] = [];
  #characters = 0;

  get content(): readonly ImageContent[] {
    return this.#content;
  }

  /** Takes the image of a value and returns the text that stands for it; undefined if the value has no image. */
  take(data: MimeBundle): string | undefined {
    const mimeType = IMAGE_TYPES.find((type) => typeof data[type] === 'string');
    const image = mimeType === undefined ? undefined : data[mimeType];
    if (mimeType === undefined || typeof image !== 'string') return undefined;
    const tooMuch = this.#content.length >= MAX_IMAGES || this.#characters + image.length > MAX_BASE64_CHARACTERS;
    const size = `${mimeType}, ${Math.ceil((image.length * 3) / 4 / 1000)} kB`;
    if (tooMuch) return `[${size}: too much to show; make it smaller, or save it with artifacts.save()]`;
    const base64 = image.replace(/\s+/g, '');
    if (!BASE64.test(base64) || base64.length % 4 !== 0) return `[${mimeType}: its data is no base64, not shown]`;
    this.#characters += base64.length;
    this.#content.push({ type: 'image', data: base64, mimeType });
    return `[picture ${this.#content.length}: ${size}]`;
  }
}
