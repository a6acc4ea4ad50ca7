/** `cella run`: runs one program, prints its output and last value, and exits with a code that says how it went. */

import type { Readable } from 'node:stream';
import { eventToJson } from '../../protocol/execution-events.ts';
import type { SessionApi } from '../../session/api.ts';
import { hintMissingPackages } from '../cells/cell-runner.ts';
import { printEvent, printNotices } from '../cells/event-printer.ts';
import { exitCodeOf, UsageError } from '../command-errors.ts';
import { Signals } from '../command-lifecycle.ts';
import type { CommandContext, OpenOptions } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { parseSeconds } from '../options.ts';
import type { ProgramContext } from '../program.ts';
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
import { InputPrompter, promptHooks } from '../terminal/prompts.ts';
import type { Terminal } from '../terminal/terminal.ts';

interface RunFlags extends SessionFlags {
  readonly c?: string;
  readonly timeout?: number;
  readonly transaction?: RunTransaction;
  readonly json?: boolean;
}

export function addRun(define: DefineCommand, context: ProgramContext, done: Done): void {
  addSessionFlags(define(HELP))
    .argument('[file]', 'the program, or - to read it from stdin')
    .option('-c <code>', 'the program itself', parseProgram)
    .option('--timeout <seconds>', 'stop the code after this long', parseSeconds)
    .option('--transaction <policy>', 'what becomes of the names that the code changes; see below', parseTransaction)
    .option('--json', 'print one event a line as JSON, the result last')
    .action(async (file: string | undefined, flags: RunFlags) => {
      const source = chooseSource(file, flags.c);
      const session = sessionOptions(flags, context.defaults);
      const { timeout: timeoutMs = 0, transaction, json = false } = flags;
      const request = { source, session, timeoutMs, json, ...(transaction === undefined ? {} : { transaction }) };
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

export async function run(request: RunRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const code = await readSource(request.source, terminal.stdin);
  let interruptCode = (): boolean => false;
  using signals = new Signals(context.signals, () => interruptCode());
  let lines: LineSource | undefined;
  const hooks = promptHooks({ terminal, json: request.json, lines: () => lines });
  await using session = await context.openSession({ ...request.session, ...hooks });
  if (signals.exitCode !== undefined) return signals.exitCode;
  interruptCode = () => {
    // Only the first one is for the code.
    interruptCode = () => false;
    session.interrupt().catch(() => {});
    return true;
  };
  const opened = openLines(request, terminal, signals);
  lines = opened;
  try {
    return await Promise.race([execute(code, { request, session, lines, terminal, signals }), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    opened.close();
  }
}

interface RunningCell {
  readonly request: RunRequest;
  readonly session: SessionApi;
  readonly lines: LineSource;
  readonly terminal: Terminal;
  readonly signals: Signals;
}

async function execute(code: string, { request, session, lines, terminal, signals }: RunningCell): Promise<number> {
  using questions = new InputPrompter({ session, lines, terminal, onInterrupt: signals.interrupt });
  const failed = Promise.withResolvers<never>();
  // A person may take any time to answer, and no answer counts as time of the code; a pipe has no more than the code has.
  const inputTimeoutMs = terminal.interactive ? 0 : request.timeoutMs;
  const events = session.stream(code, {
    timeoutMs: request.timeoutMs,
    inputTimeoutMs,
    ...(request.transaction === undefined ? {} : { transaction: request.transaction }),
  });
  const shown = (async () => {
    for await (const event of events) {
      // What comes while the session closes is only that it closes.
      if (signals.exitCode !== undefined) return signals.exitCode;
      if (request.json) await terminal.out(`${JSON.stringify(eventToJson(event))}\n`);
      else {
        if (event.type === 'result') await printNotices(terminal, event);
        await printEvent(terminal, event);
        if (event.type === 'result') await hintMissingPackages(event, session, terminal);
      }
      if (event.type === 'input_request') questions.ask(event).catch(failed.reject);
      if (event.type === 'result') return exitCodeOf(event);
    }
    throw new Error('the execution ended without a result');
  })();
  return await Promise.race([shown, failed.promise]);
}

function openLines(request: RunRequest, terminal: Terminal, signals: Signals): LineSource {
  if (request.source.kind === 'stdin') return emptyInput;
  if (terminal.interactive) return new LineEditor(terminal, signals.interrupt);
  return new PipedLines(terminal.stdin, async (prompt) => {
    // With --json the event has told the prompt.
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
  $ cella run --agent ada -c 'x = 41'; cella run --agent ada -c 'x + 1'
  $ cella run --network allow:pypi.org,*.example.org fetch.py  reach these hosts alone
  $ cella run --transaction rollback_always -c 'x = 0'      a dry run
  $ cella run --sync-deps --no-runtime-deps report.py       all packages first, and no others
  $ cella run --executor container -c 'import os; os.uname()'

Names, functions and imports stay with the agent from one run to the next, and so do its files.
What the code prints goes to stdout and stderr as it comes; the last value's repr follows on stdout.
input() is answered at the terminal, or from stdin, a line each; at its end the code gets EOFError.
--timeout does not count the time a person takes to answer; from a pipe, each answer has that long.
Ctrl-C interrupts the code, a second one ends the command.

--transaction, for names, modules and the working folder (files and what was sent elsewhere stay):
  commit_always         keep all changes; the default
  rollback_on_failure   take them back where the code fails, also under the name commit_on_success
  rollback_always       take them back in any case: a dry run

Exit codes:
  0      the code ran to its end          130    it was interrupted
  1      it raised an exception           137    its kernel was killed, or crashed
  2      this command line is wrong       141    the reader of the output went away
  124    --timeout was over               129, 143  ended by SIGHUP, SIGTERM
  Where the code calls sys.exit(n), the exit code is n.`;

type Source =
  | { readonly kind: 'code'; readonly code: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdin' };

const howTo = "Give code with -c, a file's name, or - to read the program from stdin; see `cella run --help`.";

function chooseSource(file: string | undefined, code: string | undefined): Source {
  if (file !== undefined && code !== undefined) {
    throw new UsageError(
      `Both -c and the file ${JSON.stringify(file)} are given, and only one program can run.`,
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
