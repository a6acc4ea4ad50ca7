/** Starts processes that use a storage, and listens to what they tell. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { BootstrapConfig } from '../../../src/storage/contract.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';

const programs = {
  files: fileURLToPath(new URL('storage-child.ts', import.meta.url)),
  anywhere: fileURLToPath(new URL('namespace-child.ts', import.meta.url)),
};

export interface Told {
  readonly [name: string]: unknown;
}

export class Child {
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly lines: AsyncIterableIterator<Told>;

  /** `around` is a command that runs the one after it, such as `unshare`. */
  constructor(role: string, path: string, mark = '', around: readonly string[] = [], program = programs.files) {
    const [command = '', ...args] = [...around, process.execPath, program, role, path, mark];
    this.#process = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#process.stdin?.on('error', () => {}); // it may be killed before it reads
    this.#exited = once(this.#process, 'exit');
    this.lines = read(this.#process);
    onTestFinished(() => this.kill());
  }

  /** On whatever storage this is the bootstrap config of. */
  static on(config: BootstrapConfig, role: string, mark = ''): Child {
    return new Child(role, JSON.stringify(config), mark, [], programs.anywhere);
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  async next(): Promise<Told> {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('the process ended before it told');
    return value;
  }

  /** Lets it go on to the next step. */
  go(): void {
    this.#process.stdin?.write('\n');
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#exited;
  }

  exited(): Promise<unknown> {
    return this.#exited;
  }
}

async function* read({ stdout }: ChildProcess): AsyncGenerator<Told> {
  if (stdout) for await (const line of createInterface({ input: stdout })) yield JSON.parse(line);
}

/** A folder that is gone after the test. */
export function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cella-storage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Closed after the test. */
export async function openStorage(path: string): Promise<FileStorage> {
  const storage = await FileStorage.open(path);
  onTestFinished(() => storage.close());
  return storage;
}
