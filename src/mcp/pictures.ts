/** Pictures among the rich forms of a value, as image content; what a client could not take is told in words. */

import type { ImageContent } from '@modelcontextprotocol/server';
import type { MimeBundle } from '../protocol/execution-events.ts';

/** What models can look at. */
const TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const MOST_PICTURES = 12;
/** Of base64, in all: clients take messages of up to 10 MB. */
const MOST_CHARACTERS = 5_000_000;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export class Pictures {
  readonly #content: ImageContent[] = [];
  #characters = 0;

  get content(): readonly ImageContent[] {
    return this.#content;
  }

  /** Takes the picture of a value that has one, and gives what stands for it in the text; undefined where it has none. */
  take(data: MimeBundle): string | undefined {
    const mimeType = TYPES.find((type) => typeof data[type] === 'string');
    const picture = mimeType === undefined ? undefined : data[mimeType];
    if (mimeType === undefined || typeof picture !== 'string') return undefined;
    const tooMuch = this.#content.length >= MOST_PICTURES || this.#characters + picture.length > MOST_CHARACTERS;
    const size = `${mimeType}, ${Math.ceil((picture.length * 3) / 4 / 1000)} kB`;
    if (tooMuch) return `[${size}: too much to show; make it smaller, or save it with artifacts.save()]`;
    const base64 = picture.replace(/\s+/g, '');
    if (!BASE64.test(base64) || base64.length % 4 !== 0) return `[${mimeType}: its data is no base64, not shown]`;
    this.#characters += base64.length;
    this.#content.push({ type: 'image', data: base64, mimeType });
    return `[picture ${this.#content.length}: ${size}]`;
  }
}
