/** A real terminal with a program in it, made by tmux: keys go in, and what stands on the screen can be waited for. */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { eventually } from '../../support/kernels/attack-code.ts';
import { descendants, isAlive } from '../../support/processes/processes.ts';

const run = promisify(execFile);

/** Tells how the program ended, where it can be seen, and keeps the terminal open. */
const TELL_END = '"$@"; echo "[ended with $?]"; read -r line';
const GONE_MS = 30_000;

export class Screen implements AsyncDisposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'cella-screen-'));
  readonly #watcher: ChildProcess;
  #changed = Promise.withResolvers<void>();
  readonly #ready: Promise<void>;
  #over = false;

  /** The program runs until it ends; its terminal stays until this is disposed of. */
  constructor(command: readonly string[], env: Readonly<Record<string, string>>, size = { columns: 80, rows: 40 }) {
    const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
    const place = ['-x', String(size.columns), '-y', String(size.rows)];
    // A client in control mode is told of all that is written to the terminal, as it is written.
    this.#watcher = spawn('tmux', [
      ...['-S', this.#socket, '-f', '/dev/null', '-C'],
      ...['new-session', '-s', 'screen', ...place, ...variables, '--', 'sh', '-c', TELL_END, 'sh', ...command],
    ]);
    const lines = createInterface({ input: this.#watcher.stdout as NodeJS.ReadableStream });
    this.#ready = this.#changed.promise;
    lines.on('line', () => this.#tell());
    this.#watcher.on('close', () => {
      this.#over = true;
      this.#tell();
    });
  }

  get #socket(): string {
    return join(this.#folder, 'tmux');
  }

  /** Text as it is, and keys by their names in tmux, such as `Enter` and `C-c`. */
  async type(text: string, ...keys: string[]): Promise<void> {
    if (text !== '') await this.#tmux('send-keys', '-l', '-t', 'screen', text);
    if (keys.length > 0) await this.#tmux('send-keys', '-t', 'screen', ...keys);
  }

  /** What stands on the screen, and above it, without the empty lines below. */
  async text(): Promise<string> {
    return (await this.#tmux('capture-pane', '-p', '-S', '-', '-t', 'screen')).trimEnd();
  }

  /** Resolves with the screen when it matches, with this many lines at least. */
  async shows(pattern: RegExp, lines = 0): Promise<string> {
    for (;;) {
      // Taken before the look: what comes later is not missed.
      const { promise } = this.#changed;
      const text = await this.text();
      if (pattern.test(text) && text.split('\n').length >= lines) return text;
      if (this.#over) throw new Error(`the terminal has ended before it showed ${pattern}:\n${text}`);
      await promise;
    }
  }

  /** The program that the terminal was made for. */
  async pid(): Promise<number> {
    const shell = Number(await this.#tmux('display-message', '-p', '-t', 'screen', '#{pane_pid}'));
    return descendants(shell).find(({ parent }) => parent === shell)?.pid ?? 0;
  }

  /** Closes the window, as a person does: whoever works in it is told to hang up. Resolves when all have. */
  async close(): Promise<void> {
    const pid = await this.pid();
    await this.#tmux('kill-server');
    await eventually(
      () => isAlive(pid),
      (alive) => !alive,
      GONE_MS,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(() => {}); // it was closed by the test
    if (this.#watcher.exitCode === null && this.#watcher.signalCode === null) await once(this.#watcher, 'close');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #tmux(...words: string[]): Promise<string> {
    await this.#ready;
    return (await run('tmux', ['-S', this.#socket, ...words])).stdout;
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
