/** `cella run`: one program, its output as it comes, its last value, and an exit code that tells how it went. */

import { eventToJson } from '../protocol/execution-events.ts';
import type { SessionApi } from '../session/api.ts';
import { hintMissingPackages } from './cells/cell-runner.ts';
import { printEvent, printNotices } from './cells/event-printer.ts';
import { exitCodeOf } from './command-errors.ts';
import { Signals } from './command-lifecycle.ts';
import type { CommandContext, OpenOptions } from './context.ts';
import type { RunTransaction } from './session-options.ts';
import { readSource, type Source } from './source.ts';
import { LineEditor } from './terminal/line-editor.ts';
import { emptyInput, type LineSource, PipedLines } from './terminal/line-input.ts';
import { InputPrompter, promptHooks } from './terminal/prompts.ts';
import type { Terminal } from './terminal/terminal.ts';

export interface RunRequest {
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

interface Execution {
  readonly request: RunRequest;
  readonly session: SessionApi;
  readonly lines: LineSource;
  readonly terminal: Terminal;
  readonly signals: Signals;
}

async function execute(code: string, { request, session, lines, terminal, signals }: Execution): Promise<number> {
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
