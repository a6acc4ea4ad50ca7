/** A container engine for a test: Debian's dockerd, or its Podman, on a socket of its own, in a folder that goes away with it. */

import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** An engine of the test's own needs root. */
export const canRunDocker = process.getuid?.() === 0;

export type EngineKind = 'docker' | 'podman';

/** Docker, unless whoever runs the tests wants to have them on Podman. */
export const engineKind = (): EngineKind => (process.env.CELLA_TEST_ENGINE === 'podman' ? 'podman' : 'docker');

const guardProgram = fileURLToPath(new URL('docker-guard.mjs', import.meta.url));

export class DockerEngine {
  readonly socket: string;
  readonly #guard: ChildProcess;
  #held = Promise.withResolvers<void>();
  #ended = Promise.withResolvers<string>();

  private constructor(folder: string, guard: ChildProcess) {
    this.socket = join(folder, 'socket');
    this.#guard = guard;
    const { stdout } = guard;
    if (!stdout) throw new Error('the guard has no output');
    createInterface({ input: stdout }).on('line', (line) => {
      if (line === 'held') this.#held.resolve();
      else this.#ended.resolve(line);
    });
  }

  static async start(kind = engineKind()): Promise<DockerEngine> {
    const folder = mkdtempSync(join(tmpdir(), `cella-${kind}-`));
    writeFileSync(join(folder, 'daemon.json'), '{}');
    // In a group of its own: whoever ends the group of this process still has everything cleaned up.
    const options: SpawnOptions = { stdio: ['pipe', 'pipe', 'inherit'], detached: true };
    const engine = new DockerEngine(folder, spawn(process.execPath, [guardProgram, folder, kind], options));
    try {
      await engine.restart();
      return engine;
    } catch (error) {
      await engine.remove();
      throw error;
    }
  }

  get address(): string {
    return `unix://${this.socket}`;
  }

  /** With the images that it had; containers of Docker that ran are ended. */
  async restart(): Promise<void> {
    this.#ended = Promise.withResolvers();
    this.#tell('START');
    const answers = async () => {
      while (!(await pings(this.socket))) await delay(20);
    };
    const ended = this.#ended.promise.then((how) => Promise.reject(new Error(`the engine ended at once: ${how}`)));
    ended.catch(() => {}); // it may end whenever a test wants it to
    await Promise.race([answers(), ended]);
  }

  /** As an administrator stops it: containers of Docker end too, those of Podman do not. */
  async stop(): Promise<void> {
    this.#tell('TERM');
    await this.#ended.promise;
  }

  /** As a crash: its containers run on, until it is started again. */
  async kill(): Promise<void> {
    this.#tell('KILL');
    await this.#ended.promise;
  }

  /** It keeps its connections and answers nothing, until `thaw`. */
  async freeze(): Promise<void> {
    this.#held = Promise.withResolvers();
    this.#tell('STOP');
    await this.#held.promise;
  }

  thaw(): void {
    this.#tell('CONT');
  }

  /** With its containers, mounts and folder. */
  async remove(): Promise<void> {
    if (this.#guard.exitCode !== null) return;
    const exited = once(this.#guard, 'exit');
    this.#guard.stdin?.end();
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove();
  }

  #tell(word: string): void {
    this.#guard.stdin?.write(`${word}\n`);
  }
}

function pings(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request({ socketPath, path: '/_ping', timeout: 5000 }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode === 200));
      response.on('error', () => resolve(false));
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => resolve(false));
    asked.end();
  });
}
