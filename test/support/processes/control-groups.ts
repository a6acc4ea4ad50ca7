/** Limits of the machine around a process: control groups of either version, made for one test and gone with it. */

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const ROOT = '/sys/fs/cgroup';

const MARK = 'import os, sys; os.setxattr(sys.argv[1], "user.delegate", b"1")';

type Controller = 'pids' | 'memory' | 'freezer';

export class ControlGroup implements AsyncDisposable {
  readonly #path: string;
  readonly #controller: Controller;
  readonly #isVersion1: boolean;

  constructor(controller: Controller) {
    this.#controller = controller;
    this.#isVersion1 = existsSync(join(ROOT, controller, 'tasks'));
    const parent = this.#isVersion1 ? join(ROOT, controller) : ROOT;
    this.#path = join(parent, `cella-fault-${randomUUID()}`);
    mkdirSync(this.#path);
    // As systemd marks a service with Delegate=yes: what a server starts then stays in here, as it does on version 1.
    if (!this.#isVersion1) execFileSync('python3', ['-c', MARK, this.#path]);
  }

  /** Runs what comes after it in here. */
  get around(): string[] {
    return ['sh', '-ec', `echo $$ > '${this.#path}/cgroup.procs'; exec "$@"`, 'sh'];
  }

  add(pid: number): void {
    writeFileSync(join(this.#path, 'cgroup.procs'), String(pid));
  }

  limitProcesses(count: number | 'max'): void {
    writeFileSync(join(this.#path, 'pids.max'), String(count));
  }

  limitMemory(bytes: number): void {
    writeFileSync(join(this.#path, this.#isVersion1 ? 'memory.limit_in_bytes' : 'memory.max'), String(bytes));
  }

  /** How often the system has ended a process of it for lack of memory. */
  get outOfMemoryKills(): number {
    const name = this.#isVersion1 ? 'memory.oom_control' : 'memory.events';
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(this.#path, name), 'utf8'))?.[1]);
  }

  /** No process of it does anything, nor ends, until `thaw`: as one that waits for a disk that does not answer. */
  async freeze(): Promise<void> {
    await this.#freezer('FROZEN', '1');
  }

  async thaw(): Promise<void> {
    await this.#freezer('THAWED', '0');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#controller === 'freezer') await this.thaw();
    // Whoever was in it may still be ending.
    for (let attempt = 1; ; attempt++) {
      try {
        // A server on version 2 has made groups below, which the last process leaves.
        for (const entry of readdirSync(this.#path, { withFileTypes: true }))
          if (entry.isDirectory()) rmdirSync(join(this.#path, entry.name));
        return rmdirSync(this.#path);
      } catch (error) {
        if (attempt === 500) throw error;
        await delay(20);
      }
    }
  }

  async #freezer(state: string, value: string): Promise<void> {
    const [name, word] = this.#isVersion1 ? ['freezer.state', state] : ['cgroup.freeze', value];
    const path = join(this.#path, name);
    // A process that is just being made may keep it from being done the first time.
    while (readFileSync(path, 'utf8').trim() !== word) {
      writeFileSync(path, word);
      await delay(5);
    }
  }
}
