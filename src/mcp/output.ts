/** What one execution prints and shows, in the order it comes, for a reader who gets it all at the end. */

import type { ExecutionEvent, MimeBundle } from '../protocol/execution-events.ts';
import { LongText } from './long-text.ts';
import { Pictures } from './pictures.ts';

/** Text forms of a value, the most telling first. */
const TEXTS = ['text/plain', 'text/markdown', 'text/html', 'image/svg+xml', 'application/json'];

export class Output {
  readonly text = new LongText();
  readonly pictures = new Pictures();

  take(event: ExecutionEvent): void {
    if (event.type === 'stdout' || event.type === 'stderr') this.text.append(event.text);
    else if (event.type === 'display') this.#line(this.show(event.data));
  }

  /** Keeps the picture of a value, and gives the text that stands for it. */
  show(data: MimeBundle): string | undefined {
    const picture = this.pictures.take(data);
    if (picture !== undefined) return picture;
    const found = TEXTS.map((type) => data[type]).find((form) => typeof form === 'string');
    return typeof found === 'string' ? found : `[${Object.keys(data).join(', ')}: cannot be shown here]`;
  }

  #line(text: string | undefined): void {
    if (text === undefined) return;
    this.text.endLine();
    this.text.append(`${text}\n`);
  }
}
