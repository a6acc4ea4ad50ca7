/** A terminal in the sandbox of a session in this process. */

import type { RunningTerminal } from '../environments/kernel-host.ts';
import type { ByteSource } from '../kernel/kernel-connection.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import { timeoutAfterIo } from '../lib/deadline.ts';
import { CellaError } from '../protocol/errors.ts';
import { parseOptions } from '../protocol/parse.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { type Terminal, TerminalOptions, TerminalSize, typedPieces } from '../protocol/workspace-models.ts';

/** After the program's end, all of its output can be read at once. If the pipe stays open longer, another process holds it. */
const LAST_OUTPUT_MS = 1000;

interface TerminalSetup {
  readonly env: Readonly<Record<string, string>>;
  readonly packages: string | undefined;
}

export async function openTerminal(
  manager: KernelManager,
  options: TerminalOptions,
  { env, packages }: TerminalSetup,
): Promise<Terminal> {
  const { cols, rows, argv = [] } = parseOptions(TerminalOptions, options);
  const program = { argv, env: { TERM: 'xterm-256color', ...env }, packages };
  const link = await manager.attachProcess((environment) => environment.openTerminal(program, { cols, rows }));
  return new LocalTerminal(link, argv[0] ?? 'A shell');
}

class LocalTerminal implements Terminal {
  readonly output: AsyncIterable<Uint8Array>;
  readonly exited: Promise<ProcessExit>;
  readonly #link: RunningTerminal;
  #typing: Promise<void> = Promise.resolve();

  constructor(link: RunningTerminal, name: string) {
    this.#link = link;
    this.output = new TerminalBytes(link);
    this.exited = exitOf(link, name);
    this.exited.catch(() => {}); // callers who await it get the error
  }

  write(data: Uint8Array | string): Promise<void> {
    this.#typing = this.#typing.then(async () => {
      for (const piece of typedPieces(data)) await this.#link.write(piece);
    });
    return this.#typing;
  }

  resize(size: TerminalSize): void {
    this.#link.resize(parseOptions(TerminalSize, size));
  }

  async close(): Promise<void> {
    this.#link.kill();
    this.#link.output.close();
    await this.#link.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function exitOf(link: RunningTerminal, name: string): Promise<ProcessExit> {
  const { problem, code, signal } = await link.exited;
  if (problem !== undefined) {
    throw new CellaError('TOOL_FAILED', `${name} could not be started in the sandbox: ${problem}.`);
  }
  return code === undefined ? { signal } : { code };
}

/** Delivers one chunk at a time: the next is read only after the previous one was taken. */
class TerminalBytes implements AsyncIterable<Uint8Array> {
  readonly #source: ByteSource;
  #next = Promise.withResolvers<Uint8Array | undefined>();
  #state: 'reading' | 'full' | 'ended' = 'reading';
  #exited = false;
  #late: () => void = () => {};

  constructor({ output, exited }: RunningTerminal) {
    this.#source = output;
    void exited.then(() => {
      this.#exited = true;
      this.#expectEnd();
    });
    output.read(
      (chunk) => {
        // The chunk is only valid during this call.
        this.#turn('full', new Uint8Array(chunk));
        return false;
      },
      () => this.#turn('ended', undefined),
    );
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const chunk = await this.#next.promise;
        if (chunk === undefined) return;
        yield chunk;
        if (this.#state === 'ended') return;
        this.#state = 'reading';
        this.#next = Promise.withResolvers();
        this.#expectEnd();
        this.#source.resume();
      }
    } finally {
      this.#source.close();
    }
  }

  #turn(state: 'full' | 'ended', chunk: Uint8Array | undefined): void {
    this.#late();
    this.#state = state;
    this.#next.resolve(chunk);
  }

  /** The program may have passed its output to a process that outlives it and keeps it open. */
  #expectEnd(): void {
    this.#late();
    if (this.#exited && this.#state === 'reading') {
      this.#late = timeoutAfterIo(LAST_OUTPUT_MS, () => this.#source.close());
    }
  }
}
