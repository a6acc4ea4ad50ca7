/** A terminal in the sandbox of a session in this process. */

import { type RunningTerminal, toReadable } from '../environments/kernel-host.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import { CellaError } from '../protocol/errors.ts';
import { parseOptions } from '../protocol/parse.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { type Terminal, TerminalOptions, TerminalSize, typedPieces } from '../protocol/workspace-models.ts';

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
    this.output = toReadable(link.output, link.exited);
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
