/** The template process, as the host sees it: one warm interpreter from which kernels of its kind are forked. */

import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { probePython } from '../../interpreter/find-python.ts';
import { kernelPackage } from '../../interpreter/package-file.ts';
import { isolationError } from '../../kernel/kernel-connection.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { sendSignal } from '../../lib/process-end.ts';
import { isStopped, readProcessStat } from '../../lib/process-identity.ts';
import { CellaError } from '../../protocol/errors.ts';

export interface TemplateConfig {
  readonly python: string;
  readonly sandbox: 'on' | 'off';
  readonly cgroup: 'required' | 'if-available';
  readonly preload: readonly string[];
  readonly startTimeoutMs: number;
  /** Environment variables for every kernel. Nothing of the host's environment is passed on. */
  readonly env: Readonly<Record<string, string>>;
}

/** How long it may take to end its forks before it is killed. */
const CLOSE_TIMEOUT_MS = 3000;
/** How long it may take to disappear after that. */
const KILL_TIMEOUT_MS = 5000;

const Answer = z.union([
  z.object({
    ready: z.literal(true),
    notPreloaded: z.array(z.object({ name: z.string(), reason: z.string() })),
  }),
  z.object({ ready: z.literal(false), layer: z.string(), message: z.string() }),
]);

export class TemplateProcess {
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<void>;
  readonly #gone: () => void;
  /** How long it may take to answer, even on a busy machine. */
  readonly startTimeoutMs: number;
  #alive = true;
  #users = 0;
  #closing: Promise<void> | undefined;

  private constructor(process: ChildProcess, folder: string, startTimeoutMs: number) {
    this.#process = process;
    this.startTimeoutMs = startTimeoutMs;
    this.#folder = folder;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#exited = promise;
    this.#gone = resolve;
    process.once('exit', () => resolve());
    // It never started, so no other event reports its end.
    process.once('error', () => resolve());
    void this.#exited.then(async () => {
      this.#alive = false;
      await rm(folder, { recursive: true, force: true });
    });
  }

  static async start(config: TemplateConfig): Promise<TemplateProcess> {
    const { executable, packageFolders } = await probePython(config.python);
    // Only this user can enter the folder, and so connect.
    const folder = await mkdtemp(join(tmpdir(), 'cella-'));
    await chmod(folder, 0o700);
    const options = {
      folder,
      sandbox: config.sandbox,
      cgroup: config.cgroup,
      preload: config.preload,
      packages: [...packageFolders, kernelPackage()],
    };
    const argv = ['-I', '-X', 'utf8', kernelPackage(), 'template', JSON.stringify(options)];
    // Its own session keeps a terminal's Ctrl-C away from it.
    const process = spawn(executable, argv, {
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
      env: config.env,
    });
    const template = new TemplateProcess(process, folder, config.startTimeoutMs);
    try {
      await template.#ready(config.startTimeoutMs);
      return template;
    } catch (error) {
      await template.close();
      throw error;
    }
  }

  /** The path of the socket to connect to. */
  get path(): string {
    return join(this.#folder, 'template');
  }

  /** The folder for the socket of one sandbox's proxy. Anything left in it is removed with the template. */
  networkFolder(sandbox: string): string {
    return join(this.#folder, `network-${sandbox}`);
  }

  /** Whether it makes sandboxes. A stopped template does not, so callers need not wait for its exit to be noticed. */
  get alive(): boolean {
    if (this.#alive && isStopped(this.pid)) this.retire();
    return this.#alive;
  }

  /** Makes no more sandboxes. Existing ones stay, and the template ends with the last of them. */
  retire(): void {
    this.#alive = false;
    if (this.#users === 0) void this.close();
  }

  /** Counts a sandbox. Returns the function to call at its end. */
  addUser(): () => void {
    let inside = true;
    this.#users += 1;
    return () => {
      if (!inside) return;
      inside = false;
      this.#users -= 1;
      if (!this.#alive && this.#users === 0) void this.close();
    };
  }

  /** Resolves when its process has ended. */
  get exited(): Promise<void> {
    return this.#exited;
  }

  /** Kills a sandbox, even if its pid 1 is paused. `pid` is that of its pid 1; 0 if unknown. */
  kill(sandbox: string, pid: number): void {
    this.#process.stdin?.write(`kill ${sandbox}\n`);
    // The stopped template cannot kill it. It cannot reap it either, so the pid still belongs to its child.
    if (pid > 0 && isStopped(this.pid) && readProcessStat(pid)?.parent === this.pid) sendSignal(pid, 'SIGKILL');
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** Tells the template that the host has opened the pipes of this connection. */
  confirmOpened(connection: string): void {
    this.#process.stdin?.write(`${connection}\n`);
  }

  /** Ends the template and everything forked from it. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#alive = false;
    this.#process.ref();
    this.#process.stdin?.end();
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), isStopped(this.pid) ? 0 : CLOSE_TIMEOUT_MS);
    // A process that waits for a hanging disk cannot be killed; it ends when the disk answers.
    const hangs = setTimeout(() => this.#gone(), CLOSE_TIMEOUT_MS + KILL_TIMEOUT_MS);
    await this.#exited;
    clearTimeout(timer);
    clearTimeout(hangs);
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #ready(timeoutMs: number): Promise<void> {
    const { stdout, stderr, stdin } = this.#process;
    if (!stdout || !stderr || !stdin) throw new Error('the template has no pipes');
    stdin.on('error', () => {}); // it ended first: `exit` reports that
    let stderrTail = '';
    stderr.setEncoding('utf8').on('data', (text: string) => {
      stderrTail = (stderrTail + text).slice(-4000);
    });
    // It could not be started.
    this.#process.once('error', (error) => {
      stderrTail = isAgain(error) ? NO_PROCESS : error.message;
    });
    const line = await withTimeout(firstLine(this.#process, createInterface({ input: stdout })), timeoutMs, () => {
      this.#process.kill('SIGKILL');
      const seconds = timeoutMs / 1000;
      return new CellaError(
        'TEMPLATE_FAILED',
        `Python was not ready after ${seconds} s; a module of preload may hang.`,
      );
    });
    if (line === undefined) {
      throw new CellaError(
        'TEMPLATE_FAILED',
        `Python ended before it was ready: ${stderrTail.trim() || 'it printed nothing'}.`,
      );
    }
    const answer = Answer.parse(JSON.parse(line));
    if (!answer.ready) throw isolationError(answer.layer, answer.message);
    const [missing] = answer.notPreloaded;
    if (missing) {
      throw new CellaError('INVALID_OPTIONS', `preload: ${missing.name} could not be imported: ${missing.reason}.`);
    }
    // The host may end while the template waits for work, so nothing of it keeps the event loop alive.
    this.#process.unref();
    for (const stream of [stdin, stdout, stderr])
      if ('unref' in stream && typeof stream.unref === 'function') stream.unref();
  }
}

const NO_PROCESS =
  'the machine starts no more processes; raise `ulimit -u`, or the limit of the control group, of the server';

const isAgain = (error: Error): boolean => 'code' in error && error.code === 'EAGAIN';

function firstLine(process: ChildProcess, lines: ReturnType<typeof createInterface>): Promise<string | undefined> {
  return new Promise((resolve) => {
    lines.once('line', resolve);
    process.once('exit', () => resolve(undefined));
    process.once('error', () => resolve(undefined));
  });
}
