/** `cella repl` and `cella sessions attach`: an interactive Python prompt, at a terminal or from a pipe. */

import type { Client } from '../../client/index.ts';
import type { ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionApi } from '../../session/api.ts';
import type { OpenOptions } from '../backend/backend.ts';
import { findSession } from '../backend/find-server.ts';
import { readCell } from '../cells/cell-reader.ts';
import { CellRunner } from '../cells/cell-runner.ts';
import { openWithStatus, Signals } from '../command-lifecycle.ts';
import type { CommandContext, DefineCommand, Done, SessionContext } from '../define-command.ts';
import { Exit, exitCodeOf } from '../exit-codes.ts';
import { describeExecutor } from '../format.ts';
import { addSessionFlags, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import type { LineSource } from '../terminal/line-input.ts';
import { promptHooks } from '../terminal/prompts.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

export function addRepl(define: DefineCommand, context: CommandContext, done: Done): void {
  addSessionFlags(define(HELP)).action(async (flags: SessionFlags) => {
    const request = { session: sessionOptions(flags, context.defaults), version: context.version };
    done(await repl(request, context, (options) => openWithStatus(options, context)));
  });
}

interface ReplRequest {
  readonly session: OpenOptions;
  readonly version: string;
}

export async function repl(
  request: ReplRequest,
  context: Pick<SessionContext, 'terminal' | 'signals'>,
  open: (options: OpenOptions) => Promise<SessionApi>,
): Promise<number> {
  const { terminal } = context;
  let interruptCode = (): boolean => false;
  using signals = new Signals(context.signals, () => interruptCode());
  const lines = openLineInput(terminal, signals.interrupt);
  const hooks = promptHooks({ terminal, json: false, lines: () => lines });
  await using session = await open({ ...request.session, ...hooks });
  if (signals.exitCode !== undefined) return signals.exitCode;
  const cells = new CellRunner({ session, terminal, signals, lines });
  interruptCode = () => cells.interrupt();
  if (terminal.interactive) await showBanner(terminal, request, session);
  try {
    return await Promise.race([work(session, { cells, lines, terminal }), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    lines.close();
  }
}

async function showBanner(terminal: CliTerminal, request: ReplRequest, session: SessionApi): Promise<void> {
  await terminal.err(`Cella ${request.version}`, 'bold');
  await terminal.err(`, kernel of ${JSON.stringify(session.agentKey)}\n`);
  await terminal.err(
    `Python ${describeExecutor(session, 'in a sandbox')}. Variables stay until you leave, and come back next time.\n`,
  );
  await terminal.err('Tab completes, Ctrl-C interrupts, Ctrl-D leaves.\n');
}

/** Leaves the REPL without asking the kernel, with or without the parentheses. */
export const LEAVE = /^\s*(exit|quit)\s*(\(\s*\))?\s*$/;

interface ReplParts {
  readonly cells: CellRunner;
  readonly lines: LineSource;
  readonly terminal: CliTerminal;
}

/** Reads and runs until the input ends, or the code exits with SystemExit. */
async function work(session: SessionApi, { cells, lines, terminal }: ReplParts): Promise<number> {
  // A failed write fails again at the next prompt or result, and is reported there.
  cells.showBackground().catch(() => {});
  for (let failed = false; ; ) {
    const cell = await readCell(session, lines, { prompts: terminal.interactive });
    if (cell === undefined) return terminal.interactive || !failed ? Exit.ok : Exit.failed;
    if (LEAVE.test(cell)) return Exit.ok;
    const result = await cells.run(cell);
    if (result && isExit(result)) return exitCodeOf(result);
    failed = result?.status !== 'ok';
  }
}

/** Whether the code called sys.exit, with any exit code. */
function isExit({ exitCode, error }: ResultEvent): boolean {
  return exitCode !== undefined || error?.exitCode !== undefined;
}

const HELP = `
Examples:
  $ cella repl
  $ cella repl --cwd . --network host     work on the files here, with network
  $ printf 'x = 41\\nx + 1\\n' | cella repl

Variables stay with the agent key, as with \`cella run\`. Tab completes, Ctrl-C interrupts running code or
clears the line, Ctrl-Z returns to the shell. Ctrl-D, exit or quit leaves; so does sys.exit(n), with the
exit code n.

If stdin is not a terminal, its lines run without prompts, and the exit code is 1 if the last cell failed.`;

/** The session stays open on the server. */
export async function attach(client: Client, name: string, context: CommandContext): Promise<number> {
  const { id } = await findSession(client, name);
  const { terminal, signals, version, defaults } = context;
  const openSession = ({ approve }: OpenOptions) => client.session(id, approve === undefined ? {} : { approve });
  const session = { dataDir: defaults.dataDir, sandbox: 'on' } as const;
  return await repl({ session, version }, { terminal, signals }, openSession);
}
