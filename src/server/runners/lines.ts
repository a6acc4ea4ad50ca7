/** What an executor writes on stderr: for the log, line by line and bounded, with its last words for whoever asks why it ended. */

import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

const MOST_LINE = 2000;
const MOST_LINES = 10_000;
/** A session token is no good after its task, and is nobody's business before. */
const TOKEN = /cst_[0-9A-Za-z_-]+/g;
const CONTROLS = /[^\P{Cc}\t]/gu;

export class Lines {
  #last = '';
  #rest = '';
  #count = 0;

  constructor(stream: Readable, told: (line: string) => void) {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (chunk: Buffer) => {
      const parts = (this.#rest + decoder.write(chunk)).split('\n');
      this.#rest = (parts.pop() ?? '').slice(0, MOST_LINE);
      for (const part of parts) this.#take(part, told);
    });
    stream.on('end', () => this.#take(this.#rest, told));
    stream.on('error', () => {}); // its end tells all there is to tell
  }

  get last(): string {
    return this.#last;
  }

  #take(raw: string, told: (line: string) => void): void {
    const line = raw.slice(0, MOST_LINE).replace(TOKEN, 'cst_…').replace(CONTROLS, '?').trim();
    if (line === '') return;
    this.#last = line.slice(0, 500);
    if (++this.#count <= MOST_LINES) told(line);
  }
}
