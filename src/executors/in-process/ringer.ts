/** Signals for the code of one worker: interrupts, rung until they are heard, and the alarm that the code itself asks for. */

import type { Wires } from './wires.ts';

const SIGINT = 2;
const SIGALRM = 14;
/** One that came while Python did not look, or before its execution began, is not heard: it is rung again. */
const AGAIN_MS = 10;

export class Ringer {
  readonly #wires: Wires;
  #again: NodeJS.Timeout | undefined;
  #alarm: NodeJS.Timeout | undefined;

  constructor(wires: Wires) {
    this.#wires = wires;
  }

  interrupt(execution: number): void {
    this.#wires.set('heard', 0);
    this.#wires.set('target', execution);
    clearInterval(this.#again);
    this.#again = setInterval(() => this.#ring(), AGAIN_MS);
    this.#ring();
  }

  /** Looks whether the code has asked for an alarm: 1 for none any more, else milliseconds. */
  look(): void {
    const wish = this.#wires.swap('alarm', 0);
    if (wish === 0) return;
    clearTimeout(this.#alarm);
    if (wish > 1) this.#alarm = setTimeout(() => this.#raise(SIGALRM), wish);
  }

  stop(): void {
    clearInterval(this.#again);
    clearTimeout(this.#alarm);
  }

  #ring(): void {
    if (this.#wires.get('heard') !== 0 || this.#wires.get('target') === 0) clearInterval(this.#again);
    else this.#raise(SIGINT);
  }

  #raise(signal: number): void {
    this.#wires.signal[0] = signal;
    this.#wires.wakeWorker();
  }
}
