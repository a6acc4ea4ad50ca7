/** Starts `cella` as a person would, and waits for what it says. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const launcher = fileURLToPath(new URL('../../../bin/cella.cjs', import.meta.url));

/** Gives the program a terminal, and passes on what is written to it and said by it. */
const PTY = `import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))`;

export interface StartOptions {
  /** All of stdin. Without it, stdin stays open until `type` or `end` is called. */
  readonly input?: string;
  readonly terminal?: boolean;
  readonly env?: NodeJS.ProcessEnv;
  readonly nodeFlags?: readonly string[];
  /** A command that runs the one after it, such as `unshare`. */
  readonly around?: readonly string[];
}

export class Started {
  readonly child: ChildProcess;
  out = '';
  err = '';
  readonly #ended: Promise<number | string>;

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.out += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.err += text;
    });
    this.#ended = once(child, 'close').then(([code, signal]) => code ?? signal);
  }

  /** The exit code or the signal, when every holder of its output is gone. */
  get ended(): Promise<number | string> {
    return this.#ended;
  }

  /** Resolves when stdout has said this, `times` times; fails if the program ends before. */
  async says(text: string, times = 1): Promise<void> {
    const gone = this.#ended.then((code) => {
      throw new Error(`it ended with ${code} before it said ${JSON.stringify(text)}: ${this.out}\n${this.err}`);
    });
    gone.catch(() => {});
    while (this.out.split(text).length <= times) await Promise.race([once(this.child.stdout ?? process, 'data'), gone]);
  }

  type(text: string): void {
    this.child.stdin?.write(text);
  }
}

export class Cella implements Disposable {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'cella-cli-'));
  /** Where everything that is started here keeps its temporary files. */
  readonly temporary = mkdtempSync(join(tmpdir(), 'cella-cli-'));
  readonly #children: ChildProcess[] = [];

  start(words: readonly string[], options: StartOptions = {}): Started {
    const { input, terminal = false, env = {}, nodeFlags = [], around = [] } = options;
    const command = [...around, process.execPath, ...nodeFlags, launcher, ...words];
    const argv = terminal ? ['python3', '-c', PTY, ...command] : command;
    const [program = '', ...rest] = argv;
    const child = spawn(program, rest, {
      env: {
        ...process.env,
        CELLA_DATA_DIR: this.dataDir,
        TMPDIR: this.temporary,
        TERM: 'xterm',
        NO_COLOR: '1',
        ...env,
      },
    });
    this.#children.push(child);
    // A program that does not read its input is no failure of the test.
    child.stdin.on('error', () => {});
    if (input !== undefined) child.stdin.end(input);
    return new Started(child);
  }

  /** Runs to the end. stdin is empty where no input is given. */
  async run(
    words: readonly string[],
    options: StartOptions = {},
  ): Promise<{ code: number | string; out: string; err: string }> {
    const started = this.start(words, { input: '', ...options });
    const code = await started.ended;
    return { code, out: started.out, err: started.err };
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    for (const folder of [this.dataDir, this.temporary]) rmSync(folder, { recursive: true, force: true });
  }
}
