/** Tells a person at a screen what a turn waits for, where nothing is seen of it for longer than one waits without wondering. */

import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import type { Terminal } from '../terminal.ts';
import { waiting } from './render.ts';

const SILENCE_MS = 700;
const TICK_MS = 1000;

export class Silence implements Disposable {
  readonly #terminal: Terminal;
  readonly #isAsking: () => boolean;
  #doing = 'Waiting for the agent';
  #since = Date.now();
  #timer: NodeJS.Timeout | undefined;

  /** Nothing is told while a person is asked. */
  constructor(terminal: Terminal, isAsking: () => boolean) {
    this.#terminal = terminal;
    this.#isAsking = isAsking;
    this.#wait(SILENCE_MS);
  }

  broken(event: AgentLogEvent): void {
    if (event.type === 'turn_queued') this.#doing = waiting(event).replace(/\.$/, '');
    else if (event.type === 'turn_started') this.#doing = 'Starting the agent';
    else this.#doing = 'The agent works';
    this.#since = Date.now();
    this.#wait(SILENCE_MS);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#terminal.clearStatus();
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#terminal.stderrIsScreen) return;
    this.#timer = setTimeout(() => this.#tell(), ms);
    this.#timer.unref();
  }

  #tell(): void {
    // On a line that the agent has begun, there is no room for another.
    if (!this.#isAsking() && this.#terminal.unfinishedLine === '') {
      const seconds = Math.round((Date.now() - this.#since) / 1000);
      // What cannot be shown here fails again, and is told, with the first output.
      void this.#terminal.status(`${this.#doing} … ${seconds} s`).catch(() => {});
    }
    this.#wait(TICK_MS);
  }
}
