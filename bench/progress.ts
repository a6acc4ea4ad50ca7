/** Shows progress: one line when a step begins, and at most one per second during the step. */

const EVERY_MS = 1000;

export class Progress {
  readonly #write: (line: string) => void;
  #step = '';
  #last = 0;

  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  step(name: string): void {
    this.#step = name;
    this.#say(name);
  }

  tick(done: number, total: number): void {
    if (performance.now() - this.#last >= EVERY_MS) this.#say(`${this.#step}: ${done} of ${total}`);
  }

  #say(line: string): void {
    this.#last = performance.now();
    this.#write(line);
  }
}
