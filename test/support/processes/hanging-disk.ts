/** An empty file system that can hang: no call on it returns until it answers again. Needs root and FUSE. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('hanging-disk.py', import.meta.url));

export const canHang = existsSync('/dev/fuse');

export class HangingDisk implements AsyncDisposable {
  readonly path: string;
  readonly #child: ChildProcess;
  readonly #lines: Interface;

  private constructor(path: string, child: ChildProcess, lines: Interface) {
    this.path = path;
    this.#child = child;
    this.#lines = lines;
  }

  static async mount(): Promise<HangingDisk> {
    const path = mkdtempSync(join(tmpdir(), 'cella-hanging-'));
    const child = spawn('python3', [program, path], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface(child.stdout);
    await Promise.race([once(lines, 'line'), once(lines, 'close').then(() => Promise.reject(new Error('no FUSE')))]);
    return new HangingDisk(path, child, lines);
  }

  /** `after`: how many more requests it answers. */
  hang({ after = 0 } = {}): Promise<void> {
    return this.#tell(`hang ${after}`);
  }

  answer(): Promise<void> {
    return this.#tell('answer');
  }

  async #tell(what: string): Promise<void> {
    const heard = once(this.#lines, 'line');
    this.#child.stdin?.write(`${what}\n`);
    await heard;
  }

  /** Whoever waits for it is told that it is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
    spawnSync('umount', ['-l', this.path]);
    rmSync(this.path, { recursive: true });
  }
}
