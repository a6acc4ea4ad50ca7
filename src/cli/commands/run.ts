/** `cella run`: runs one program, prints its output and last value, and reports the outcome in its exit code. */

import type { Readable } from 'node:stream';
import type { OpenOptions } from '../backend/backend.ts';
import { CellRunner } from '../cells/cell-runner.ts';
import { UsageError } from '../command-errors.ts';
import { openWithStatus, Signals } from '../command-lifecycle.ts';
import type { CommandContext, DefineCommand, Done, SessionContext } from '../define-command.ts';
import { exitCodeOf } from '../exit-codes.ts';
import { parseSeconds } from '../options.ts';
import {
  addSessionFlags,
  parseProgram,
  parseTransaction,
  type RunTransaction,
  type SessionFlags,
  sessionOptions,
} from '../session-flags.ts';
import { LineEditor } from '../terminal/line-editor.ts';
import { emptyInput, type LineSource, PipedLines, readText } from '../terminal/line-input.ts';
import { promptHooks } from '../terminal/prompts.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

interface RunFlags extends SessionFlags {
  readonly c?: string;
  readonly timeout?: number;
  readonly transaction?: RunTransaction;
  readonly json?: boolean;
}

export function addRun(define: DefineCommand, context: CommandContext, done: Done): void {
  addSessionFlags(define(HELP))
    .argument('[file]', 'Python file, or - to read it from stdin')
    .option('-c <code>', 'Python code', parseProgram)
    .option('--timeout <seconds>', 'stop the code after this time', parseSeconds)
    .option('--transaction <policy>', 'what happens to changes of variables; see below', parseTransaction)
    .option('--json', 'print one JSON event per line, the result last')
    .action(async (file: string | undefined, flags: RunFlags) => {
      const source = chooseSource(file, flags.c);
      const session = sessionOptions(flags, context.defaults);
      const { timeout: timeoutMs = 0, transaction, json = false } = flags;
      const request = { source, session, timeoutMs, json, transaction };
      done(await run(request, context));
    });
}

interface RunRequest {
  readonly source: Source;
  readonly session: OpenOptions;
  readonly timeoutMs: number;
  readonly transaction?: RunTransaction;
  readonly json: boolean;
}

export async function run(request: RunRequest, context: SessionContext): Promise<number> {
  const { terminal } = context;
  const { json, timeoutMs, transaction } = request;
  const code = await readSource(request.source, terminal.stdin);
  let interruptCode = (): boolean => false;
  using signals = new Signals(context.signals, () => interruptCode());
  let lines: LineSource | undefined;
  const hooks = promptHooks({ terminal, json, lines: () => lines });
  await using session = await openWithStatus({ ...request.session, ...hooks }, context);
  if (signals.exitCode !== undefined) return signals.exitCode;
  const opened = openLines(request, terminal, signals);
  lines = opened;
  const cells = new CellRunner({ session, terminal, signals, lines, json });
  interruptCode = () => {
    // Only the first signal interrupts the code.
    interruptCode = () => false;
    return cells.interrupt();
  };
  // A person may take any time to answer, which does not count as the code's time; input from a pipe gets the code's timeout.
  const inputTimeoutMs = terminal.interactive ? 0 : timeoutMs;
  const options = { timeoutMs, inputTimeoutMs, transaction };
  try {
    return await Promise.race([cells.execute(code, options).then(exitCodeOf), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    opened.close();
  }
}

function openLines(request: RunRequest, terminal: CliTerminal, signals: Signals): LineSource {
  if (request.source.kind === 'stdin') return emptyInput;
  if (terminal.interactive) return new LineEditor(terminal, signals.interrupt);
  return new PipedLines(terminal.stdin, async (prompt) => {
    // With --json an event contains the prompt.
    if (!request.json) await terminal.err(prompt);
  });
}

const HELP = `
Examples:
  $ cella run -c 'import sys; sys.version'
  $ cella run report.py --timeout 30 --memory 512
  $ echo 'print(input("Name? "))' > ask.py; echo Ada | cella run ask.py
  $ generate-code | cella run -       read the program from stdin
  $ cella run job.py --json | jq .    read the events from another program
  $ cella run --key ada -c 'x = 41'; cella run --key ada -c 'x + 1'
  $ cella run --network allow:pypi.org,*.example.org fetch.py  reach only these hosts
  $ cella run --transaction rollback_always -c 'x = 0'      a dry run
  $ cella run --sync-deps --no-runtime-deps report.py       install the listed packages, allow no others
  $ cella run --executor container -c 'import os; os.uname()'

Variables, functions, imports and files stay with the agent key from one run to the next. Output streams
to stdout and stderr; the repr of the last value follows on stdout. The program runs as a cell: it has no
__file__ and no arguments.

You answer input() at the terminal. If stdin is not a terminal, each input() reads one line from it, and
the code gets EOFError at its end. --timeout does not count the time in which the code waits for an answer.
If stdin is not a terminal, each answer may take up to --timeout. Ctrl-C interrupts the code; a second
Ctrl-C ends the command.

--transaction applies to variables, modules and the working folder. It does not undo changes to files, or
anything that the code has sent to other programs.
  commit_always         keep the changes; the default
  rollback_on_failure   undo them if the code fails; also called commit_on_success
  rollback_always       always undo them: a dry run

Exit codes:
  0      the code ran to its end          130    it was interrupted
  1      it raised an exception           137    its kernel was killed, or crashed
  2      the command line is wrong        141    the reader of the output went away
  124    --timeout expired                129, 143  ended by SIGHUP, SIGTERM
  If the code calls sys.exit(n), the exit code is n.`;

type Source =
  | { readonly kind: 'code'; readonly code: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdin' };

const howTo = "Give code with -c, a file's name, or - to read the program from stdin; see `cella run --help`.";

function chooseSource(file: string | undefined, code: string | undefined): Source {
  if (file !== undefined && code !== undefined) {
    throw new UsageError(
      `Both -c and the file ${JSON.stringify(file)} are given, but only one program can run.`,
      howTo,
    );
  }
  if (code !== undefined) return { kind: 'code', code };
  if (file === undefined || file === '') throw new UsageError('There is no program to run.', howTo);
  return file === '-' ? { kind: 'stdin' } : { kind: 'file', path: file };
}

export async function readSource(source: Source, stdin: Readable): Promise<string> {
  if (source.kind === 'code') return source.code;
  const file = source.kind === 'file' ? source.path : '-';
  return await readText(file, { stdin, advice: 'Name a Python file, or give code with -c.' });
}
