/** Named pipes for the output of a container's kernels, made a few ahead. A name is used once, then taken away. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { runProgram } from '../../lib/run-program.ts';
import { CellaError } from '../../protocol/errors.ts';
import { PipeSource } from '../sockets.ts';

const MAKE_MS = 10_000;
const STOCK = 8;
const FEW = 3;

export interface PipePair {
  /** Their names in the folder. */
  readonly out: string;
  readonly err: string;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
  /** Once the other ends are open, or never will be. */
  forget(): void;
}

export class Pipes {
  readonly #folder: string;
  readonly #ready: number[] = [];
  #made = 0;
  #making: Promise<void> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Makes sure that there are some. */
  fill(): Promise<void> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** A pair with our ends open: whoever opens the others does not wait. */
  async take(): Promise<PipePair> {
    if (this.#ready.length === 0) await this.fill();
    const number = this.#ready.shift();
    if (number === undefined) throw new CellaError('CONTAINER_FAILED', 'There is no pipe for the output of a kernel.');
    // Whoever takes the last of them meets what stands in the way of more.
    if (this.#ready.length < FEW) this.fill().catch(() => {});
    const [out, err] = namesOf(number);
    const opened: PipeSource[] = [];
    const forget = () => {
      // The folder may be gone with its container.
      for (const name of [out, err]) rmSync(join(this.#folder, name), { force: true });
    };
    try {
      for (const name of [out, err]) opened.push(new PipeSource(join(this.#folder, name)));
      const [stdout, stderr] = opened as [PipeSource, PipeSource];
      return { out, err, stdout, stderr, forget };
    } catch (error) {
      for (const source of opened) source.close();
      throw error;
    }
  }

  async #make(): Promise<void> {
    const numbers = Array.from({ length: STOCK }, () => this.#made++);
    const paths = numbers.flatMap(namesOf).map((name) => join(this.#folder, name));
    // Code may open /dev/stdout again, whichever user it is.
    await runProgram('mkfifo', ['-m', '666', '--', ...paths], MAKE_MS);
    this.#ready.push(...numbers);
  }
}

function namesOf(number: number): [out: string, err: string] {
  return [`${number}.out`, `${number}.err`];
}
