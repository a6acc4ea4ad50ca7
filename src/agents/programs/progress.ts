/** Tells a person how far an install is: what npm is at, and how much is there once there is something. */

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { NpmStep } from './npm.ts';
import type { AgentProgram } from './program.ts';

const EVERY_MS = 1000;

export class Progress implements Disposable {
  readonly #folder: string;
  readonly #program: AgentProgram;
  readonly #tell: (text: string) => void;
  readonly #timer: NodeJS.Timeout;
  #step: NpmStep = { asked: 0, wanted: 0 };
  #last = '';
  #over = false;

  /** `tell` is called at once, and whenever there is something else to tell. */
  constructor(folder: string, program: AgentProgram, tell: (text: string) => void) {
    this.#folder = folder;
    this.#program = program;
    this.#tell = tell;
    this.#say(inWords(this.#step));
    this.#timer = setInterval(() => void this.#look(), EVERY_MS);
  }

  readonly take = (step: NpmStep): void => {
    this.#step = step;
  };

  [Symbol.dispose](): void {
    this.#over = true;
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const done = Math.round((await sizeOf(this.#folder)) / 1e6);
    if (!this.#over) this.#say(done > 0 ? `${done} of about ${this.#program.megabytes} MB` : inWords(this.#step));
  }

  #say(how: string): void {
    if (how !== this.#last) this.#tell(`Installing ${this.#program.title} ${this.#program.version} with npm: ${how}`);
    this.#last = how;
  }
}

/** Before anything is there that could be measured. */
function inWords({ asked, wanted }: NpmStep): string {
  const counted = (count: number) => `${count} package${count === 1 ? '' : 's'}`;
  if (wanted > 0) return `fetching ${counted(wanted)}`;
  return `asking the registry${asked === 0 ? '' : `: ${counted(asked)} so far`}`;
}

async function sizeOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []); // npm moves folders about
  const sizes = entries.map(async (entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return await sizeOf(path);
    return await stat(path).then(
      ({ size }) => size,
      () => 0, // it has gone meanwhile
    );
  });
  return (await Promise.all(sizes)).reduce((total, size) => total + size, 0);
}
