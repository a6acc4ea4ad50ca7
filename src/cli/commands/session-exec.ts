/** `cella sessions exec`: connects the terminal to a program in the sandbox of a session. */

import { constants } from 'node:os';
import type { Client, ProcessExit, Terminal, TerminalSize } from '../../client/index.ts';
import { findSession } from '../backend/find-server.ts';
import { type CliTerminal, type TerminalInput, type TerminalOutput, writeTo } from '../terminal/terminal.ts';

interface ExecRequest {
  readonly name: string;
  /** Empty for the shell. */
  readonly argv: readonly string[];
}

const END_OF_INPUT = '\u0004';
const MAX_SIZE = 1000;

/** Returns the program's exit code. */
export async function exec(
  client: Client,
  { name, argv }: ExecRequest,
  { terminal: { stdin, stdout }, signal }: { readonly terminal: CliTerminal; readonly signal: AbortSignal },
): Promise<number> {
  const session = await client.session((await findSession(client, name)).id);
  await using remote = await session.terminal({ ...sizeOf(stdout), argv: argv.length === 0 ? undefined : argv });
  using _connected = connectTerminals(remote, stdin, stdout);
  signal.addEventListener('abort', () => void remote.close(), { once: true });
  for await (const chunk of remote.output) await writeTo(stdout, chunk);
  return codeOf(await remote.exited);
}

/** Sends keys and screen sizes. Disposing of the result restores the terminal. */
function connectTerminals(remote: Terminal, stdin: TerminalInput, stdout: TerminalOutput): Disposable {
  const type = (data: Uint8Array | string) => {
    stdin.pause();
    void remote.write(data).then(() => stdin.resume());
  };
  const end = () => void remote.write(END_OF_INPUT);
  const resize = () => remote.resize(sizeOf(stdout));
  if (stdin.isTTY) stdin.setRawMode?.(true);
  stdin.on('data', type).once('end', end);
  stdout.on('resize', resize);
  return {
    [Symbol.dispose]() {
      stdin.off('data', type).off('end', end).pause();
      stdout.off('resize', resize);
      if (stdin.isTTY) stdin.setRawMode?.(false);
    },
  };
}

function sizeOf({ columns, rows }: TerminalOutput): TerminalSize {
  return { cols: Math.min(columns || 80, MAX_SIZE), rows: Math.min(rows || 24, MAX_SIZE) };
}

/** 128 plus the signal's number, as in a shell. */
function codeOf(exit: ProcessExit): number {
  if (exit.code !== undefined) return exit.code;
  const numbers: Partial<Record<string, number>> = constants.signals;
  return 128 + (numbers[exit.signal] ?? 0);
}
