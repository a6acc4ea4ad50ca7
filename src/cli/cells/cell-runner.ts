/** Runs cells one after the other: prints events, answers input(), and hints at missing packages. */

import { CellaError } from '../../protocol/errors.ts';
import {
  type BackgroundEvent,
  type ExecutionEvent,
  eventToJson,
  type InputRequestEvent,
  type ResultEvent,
  type SavedEvent,
} from '../../protocol/execution-events.ts';
import type { ExecuteOptions, SessionApi } from '../../session/api.ts';
import { reportFailure } from '../command-errors.ts';
import type { Signals } from '../command-lifecycle.ts';
import { escapeControls } from '../format.ts';
import { LineEditor } from '../terminal/line-editor.ts';
import type { LineSource } from '../terminal/line-input.ts';
import { InputPrompter } from '../terminal/prompts.ts';
import type { CliTerminal } from '../terminal/terminal.ts';
import { describeDenied, printEvent, printNotices } from './event-printer.ts';

interface CellRunnerOptions {
  readonly session: SessionApi;
  readonly terminal: CliTerminal;
  readonly signals: Signals;
  readonly lines: LineSource;
  /** Prints events as lines of JSON for a program. */
  readonly json?: boolean;
}

/** A bare KeyboardInterrupt would not tell users that another client interrupted the code. */
const INTERRUPTED_ELSEWHERE =
  'cella: the code was interrupted by another client, or because the server is shutting down.';

export class CellRunner {
  readonly #options: CellRunnerOptions;
  #running = false;
  /** Whether this command interrupted the running cell. */
  #interrupted = false;
  #last: ResultEvent['status'] = 'ok';

  constructor(options: CellRunnerOptions) {
    this.#options = options;
  }

  /** At a terminal, Ctrl-C interrupts the running code and never ends the command. */
  interrupt(): boolean {
    const { session, terminal } = this.#options;
    if (this.#running) {
      this.#interrupted = true;
      session.interrupt().catch(() => {});
    }
    return this.#running || terminal.interactive;
  }

  /** Undefined if the code could not run; the error has been printed. */
  async run(code: string): Promise<ResultEvent | undefined> {
    const { terminal, json = false } = this.#options;
    try {
      // A person may take any time to answer.
      const result = await this.execute(code, { inputTimeoutMs: 0 });
      // The next prompt starts on a new line.
      if (terminal.interactive && terminal.unfinishedLine !== '') await terminal.err('\n');
      return result;
    } catch (error) {
      if (!(error instanceof CellaError) || error.code === 'SESSION_CLOSED') throw error;
      await reportFailure(terminal, error, { json });
      this.#last = 'error';
      return undefined;
    }
  }

  async execute(code: string, options: ExecuteOptions): Promise<ResultEvent> {
    const { session, lines, terminal, signals } = this.#options;
    using questions = new InputPrompter({ session, lines, terminal, onInterrupt: signals.interrupt });
    const failed = Promise.withResolvers<never>();
    const ask = (request: InputRequestEvent) => questions.ask(request).catch(failed.reject);
    this.#running = true;
    this.#interrupted = false;
    try {
      const result = await Promise.race([failed.promise, this.#perform(session.stream(code, options), ask)]);
      this.#last = result.status;
      return result;
    } finally {
      this.#running = false;
    }
  }

  /** Prints what threads, tasks and child processes write between cells. Resolves when the session closes. */
  async showBackground(): Promise<void> {
    const { session, lines, terminal } = this.#options;
    for await (const event of session.background()) {
      if (event.type === 'saved') continue;
      const write = () => this.#showBetween(event);
      while (terminal.activeQuestion) await terminal.activeQuestion;
      if (lines instanceof LineEditor) await lines.printAbove(write);
      else await write();
    }
  }

  async #perform(
    events: AsyncIterable<ExecutionEvent>,
    ask: (request: InputRequestEvent) => void,
  ): Promise<ResultEvent> {
    const { session, terminal, signals, json } = this.#options;
    for await (const event of events) {
      // While the session closes, events only report the closing.
      if (signals.exitCode !== undefined) break;
      if (event.type === 'result' && !json)
        await printNotices(terminal, event, { deathReported: this.#last === 'died' });
      await this.#show(event);
      if (event.type === 'input_request') ask(event);
      if (event.type !== 'result') continue;
      if (json) return event;
      if (event.status === 'interrupted' && !this.#interrupted) await terminal.errLines(INTERRUPTED_ELSEWHERE, 'red');
      await hintMissingPackages(event, session, terminal);
      return event;
    }
    throw new Error('the execution ended without a result');
  }

  /** Prints progress as whole lines: a line that is replaced later cannot stand above a prompt. */
  async #showBetween(event: Exclude<BackgroundEvent, SavedEvent>): Promise<void> {
    const { terminal, json } = this.#options;
    if (event.type === 'network_denied') {
      return json
        ? await terminal.out(`${JSON.stringify(event)}\n`)
        : await terminal.errLines(describeDenied(event), 'yellow');
    }
    if (event.type !== 'progress' || json) return await this.#show(event);
    await terminal.errLines(escapeControls(event.text), 'dim');
  }

  #show(event: ExecutionEvent): Promise<void> {
    const { terminal, json } = this.#options;
    return json ? terminal.out(`${JSON.stringify(eventToJson(event))}\n`) : printEvent(terminal, event);
  }
}

async function hintMissingPackages(
  { error }: ResultEvent,
  session: Pick<SessionApi, 'deps' | 'executor'>,
  terminal: CliTerminal,
): Promise<void> {
  if (error?.name !== 'ModuleNotFoundError') return;
  // The traceback is printed already. Without a status there is no hint.
  const status = await session.deps.status().catch(() => undefined);
  if (!status || status.installed) return;
  const flag = session.executor === 'subprocess' ? '' : ` --executor ${session.executor}`;
  const what = `${status.requirements.join(', ')}: on the list, but not all installed for this Python (${status.python})`;
  await terminal.errLines(`cella: ${what}. Install with \`cella deps sync${flag}\`.`);
}
