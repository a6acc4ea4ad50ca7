/** The screen as a line editor sees it: it can be hidden behind a curtain while a password is typed. */

import { Writable } from 'node:stream';
import type { Output } from './terminal.ts';

export class Curtain extends Writable {
  readonly isTTY = true;
  hidden = false;
  readonly #screen: Output;
  readonly #resized = () => this.emit('resize');

  constructor(screen: Output) {
    super();
    this.#screen = screen;
    screen.on('resize', this.#resized);
  }

  get columns(): number {
    return this.#screen.columns ?? 80;
  }

  /** Passes on at once, so that what others write to the same screen keeps its place. */
  override write(text: unknown): boolean {
    return this.hidden || this.#screen.write(text);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#screen.off('resize', this.#resized);
    done(error);
  }
}
