/** Which processor this thread computes on, for those who had better run on another. */

import { closeSync, openSync, readSync } from 'node:fs';

/** More than a line of /proc/<pid>/stat has. */
const LINE_BYTES = 1024;
/** How many fields stand between the name, which may itself hold spaces and parentheses, and the processor. */
const FIELDS_BEFORE = 36;
const [SPACE, CLOSING, ZERO] = [' ', ')', '0'].map((character) => character.charCodeAt(0)) as [number, number, number];

export class Processor {
  readonly #line = Buffer.allocUnsafe(LINE_BYTES);
  /** Kept open: finding the file takes longer than reading it. */
  #file: number | undefined;

  /** -1 where the system does not say. */
  get number(): number {
    try {
      this.#file ??= openSync('/proc/thread-self/stat', 'r');
      return processorIn(this.#line.subarray(0, readSync(this.#file, this.#line, 0, LINE_BYTES, 0)));
    } catch {
      // No Linux, or no /proc: nobody needs to know.
      return -1;
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

/** Without making a text of it: somebody waits for this. */
function processorIn(line: Buffer): number {
  let at = line.lastIndexOf(CLOSING) + 2;
  for (let fields = 0; fields < FIELDS_BEFORE; at++) {
    if (at >= line.length) return -1;
    if (line[at] === SPACE) fields++;
  }
  let processor = 0;
  for (; at < line.length && line[at] !== SPACE; at++) processor = processor * 10 + (line[at] as number) - ZERO;
  return processor;
}
