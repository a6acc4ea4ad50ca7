/** `cella repl`: a kernel line by line, at a terminal or from a pipe. */

import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/events.ts';
import type { SessionApi } from '../session/api.ts';
import { readCell } from './cell-reader.ts';
import type { CommandContext, OpenOptions } from './context.ts';
import { Exit, exitCodeOf } from './exit.ts';
import { reportFailure } from './failure.ts';
import { LineEditor } from './line-editor.ts';
import { PipedLines } from './piped-lines.ts';
import { Questions } from './questions.ts';
import { showEvent, showRecovery } from './show.ts';
import { Signals } from './signals.ts';
import type { Terminal } from './terminal.ts';

export interface ReplRequest {
  readonly session: OpenOptions;
  readonly version: string;
}

export async function repl(request: ReplRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  let interruptCode = (): boolean => false;
  using signals = new Signals(context.signals, () => interruptCode());
  await using session = await context.openSession(request.session);
  if (signals.exitCode !== undefined) return signals.exitCode;
  const shell = new Repl(session, terminal, signals);
  interruptCode = () => shell.interrupt();
  if (terminal.interactive) await showBanner(terminal, request, session.agentKey);
  try {
    return await Promise.race([shell.work(), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.endSoon();
    shell.close();
  }
}

async function showBanner(terminal: Terminal, { version, session }: ReplRequest, agentKey: string): Promise<void> {
  const place = session.sandbox === 'off' ? 'without a sandbox' : 'in a sandbox';
  await terminal.err(`Cella ${version}`, 'bold');
  await terminal.err(`, the kernel of ${JSON.stringify(agentKey)}\n`);
  await terminal.err(`Python ${place}: what one line defines, the next ones can use.\n`);
  await terminal.err('Tab completes, Ctrl-C interrupts, Ctrl-D leaves.\n');
}

/** What leaves without a word to the kernel, with the parentheses or without. */
const LEAVE = /^\s*(exit|quit)\s*(\(\s*\))?\s*$/;

class Repl {
  readonly #session: SessionApi;
  readonly #terminal: Terminal;
  readonly #signals: Signals;
  readonly #lines: LineEditor | PipedLines;
  #running = false;
  #last: ResultEvent['status'] = 'ok';

  constructor(session: SessionApi, terminal: Terminal, signals: Signals) {
    this.#session = session;
    this.#terminal = terminal;
    this.#signals = signals;
    this.#lines = terminal.interactive
      ? new LineEditor(terminal, signals.interrupt)
      : new PipedLines(terminal.stdin, (prompt) => terminal.err(prompt));
  }

  /** At a terminal, Ctrl-C never ends the repl. */
  interrupt(): boolean {
    if (this.#running) this.#session.interrupt().catch(() => {});
    return this.#running || this.#terminal.interactive;
  }

  /** Reads and runs until there is nothing more to read, or the code leaves with SystemExit. */
  async work(): Promise<number> {
    // What cannot be shown here fails again, and is told, at the next prompt or result.
    this.#showBackground().catch(() => {});
    for (;;) {
      const cell = await readCell(this.#session, this.#lines, { prompts: this.#terminal.interactive });
      if (cell === undefined) return this.#terminal.interactive || this.#last === 'ok' ? Exit.ok : Exit.failed;
      if (LEAVE.test(cell)) return Exit.ok;
      const exitCode = await this.#run(cell);
      if (exitCode !== undefined) return exitCode;
    }
  }

  close(): void {
    this.#lines.close();
  }

  /** Gives an exit code where the code asked to leave. */
  async #run(code: string): Promise<number | undefined> {
    this.#running = true;
    try {
      const result = await this.#execute(code);
      this.#last = result.status;
      return result.error?.exitCode === undefined ? undefined : exitCodeOf(result);
    } catch (error) {
      if (!(error instanceof CellaError) || error.code === 'SESSION_CLOSED') throw error;
      await reportFailure(this.#terminal, error, { json: false });
      this.#last = 'error';
      return undefined;
    } finally {
      this.#running = false;
    }
  }

  async #execute(code: string): Promise<ResultEvent> {
    using questions = new Questions({
      session: this.#session,
      lines: this.#lines,
      onInterrupt: this.#signals.interrupt,
    });
    const failed = Promise.withResolvers<never>();
    return await Promise.race([
      failed.promise,
      this.#show(code, (request) => questions.ask(request).catch(failed.reject)),
    ]);
  }

  async #show(code: string, ask: (request: Parameters<Questions['ask']>[0]) => void): Promise<ResultEvent> {
    for await (const event of this.#session.stream(code, { inputTimeoutMs: 0 })) {
      // What comes while the session closes is only that it closes.
      if (this.#signals.exitCode !== undefined) break;
      // A death in the cell before was told when it happened.
      const unseen = event.type === 'result' && this.#last !== 'died' ? event.recovered : undefined;
      if (unseen) await showRecovery(this.#terminal, unseen);
      await showEvent(this.#terminal, event);
      if (event.type === 'input_request') ask(event);
      if (event.type !== 'result') continue;
      if (this.#terminal.interactive && this.#terminal.unfinishedLine !== '') await this.#terminal.err('\n');
      return event;
    }
    throw new Error('the execution ended without a result');
  }

  async #showBackground(): Promise<void> {
    for await (const event of this.#session.background()) {
      const write = () => showEvent(this.#terminal, event);
      if (this.#lines instanceof LineEditor) await this.#lines.interject(write);
      else await write();
    }
  }
}
