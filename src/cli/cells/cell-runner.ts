/** Runs cells one after the other: prints events, answers input(), and hints at missing packages. */
import { CellaError } from '../../protocol/errors.ts';
import {
  type BackgroundEvent,
  type Death,
  type ExecutionEvent,
  eventToJson,
  type InputRequestEvent,
  type MimeBundle,
  type NetworkDeniedEvent,
  type Recovered,
  type ResultEvent,
  type SavedEvent,
} from '../../protocol/execution-events.ts';
import { PyObject, type PyValue } from '../../protocol/py-values.ts';
import type { ExecuteOptions, SessionApi } from '../../session/api.ts';
import { adviceFor, reportFailure } from '../command-errors.ts';
import type { Signals } from '../command-lifecycle.ts';
import { escapeControls, formatCount, formatDuration, formatLost, formatSize } from '../format.ts';
import { LineEditor } from '../terminal/line-editor.ts';
import type { LineSource } from '../terminal/line-input.ts';
import { InputPrompter } from '../terminal/prompts.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

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

/** Prints the events of an execution as text: output, displays, the last value, and how it ended. */

async function printEvent(terminal: CliTerminal, event: ExecutionEvent): Promise<void> {
  if (event.type !== 'progress') terminal.clearStatus();
  switch (event.type) {
    case 'stdout':
      return await terminal.out(event.text);
    case 'stderr':
      return await terminal.err(event.text);
    case 'display':
      return await terminal.outLines(formatBundle(event.data));
    case 'progress':
      return await terminal.status(event.text);
    case 'input_request':
      // The prompter shows the prompt.
      return;
    case 'result':
      return await printResult(terminal, event);
  }
}

/** Describes a host that the code tried to reach without permission. */
export function describeDenied({ host, port, reason, more = 0 }: NetworkDeniedEvent): string {
  const others = more === 0 ? '' : `, and ${more} more since the last notice`;
  return `cella: the network policy blocked the code from ${escapeControls(host)}:${port} (${escapeControls(reason)})${others}.`;
}

async function printResult(terminal: CliTerminal, result: ResultEvent): Promise<void> {
  if (result.repr !== undefined) await terminal.outLines(result.repr);
  if (result.truncated?.reprCharacters) {
    await terminal.errLines(`[${result.truncated.reprCharacters} more characters of this value are not shown]`, 'dim');
  }
  if (result.error) await printError(terminal, result.error);
  if (result.status === 'timeout') {
    const seconds = (result.durationMs / 1000).toFixed(1);
    await terminal.errLines(`cella: the code was stopped after ${seconds} s, at its time limit.`, 'red');
  }
  if (result.death) await terminal.errLines(describeDeath(result.death), 'red');
  if (result.transaction === 'rolled_back') {
    await terminal.errLines('cella: the changes of this code to variables were undone.', 'yellow');
  }
}

async function printError(terminal: CliTerminal, error: NonNullable<ResultEvent['error']>): Promise<void> {
  if (error.exitCode === undefined) {
    if (error.traceback !== '') await terminal.errLines(error.traceback, 'red');
    return;
  }
  // Like Python: prints a message; a number is only the exit code.
  if (error.exitCode === 1 && error.message !== '1') await terminal.errLines(error.message);
}

/** Reports variables that a person may still expect: lost with a dead kernel, or not saveable. */
async function printNotices(terminal: CliTerminal, result: ResultEvent, { deathReported = false } = {}): Promise<void> {
  const { recovered, resumed } = result;
  const lines = recovered ? [describeRecovered(recovered, deathReported)] : [];
  lines.push(...formatLost(recovered ?? resumed ?? {}, 'could not be restored'));
  if (lines.length > 0) await terminal.errLines(lines.join('\n'), 'yellow');
}

function describeRecovered(
  { cause, savedAgoMs, restored, moreRestored = 0 }: Recovered,
  deathReported: boolean,
): string {
  const variables = formatCount(restored.length + moreRestored, 'variable');
  const back =
    savedAgoMs === undefined
      ? 'its variables are gone'
      : `${variables} restored, as of ${formatDuration(savedAgoMs)} ago`;
  return deathReported
    ? `cella: this is a new kernel: ${back}.`
    : `cella: the previous kernel has ended (${cause.message}); ${back}.`;
}

function describeDeath(death: Death): string {
  return `cella: ${death.message}\n${adviceFor(death.code)}`;
}

/** The text form if there is one; otherwise the type and size of each form. */
export function formatBundle(data: MimeBundle): string {
  const plain = data['text/plain'];
  const others = Object.entries(data).filter(([type]) => type !== 'text/plain');
  const pictures = others.filter(([type]) => type.startsWith('image/'));
  const named = typeof plain === 'string' ? pictures : others;
  const lines = named.map(([type, value]) => `[${type}, ${formatSize(sizeOf(type, value))}]`);
  return (typeof plain === 'string' ? [plain, ...lines] : lines).join('\n');
}

function sizeOf(type: string, value: PyValue): number {
  if (typeof value === 'string') {
    // Binary data is base64; SVG is the only image type that is text.
    const binary = !type.startsWith('text/') && !/[+/](json|xml)$/.test(type) && type !== 'application/javascript';
    return binary ? Buffer.byteLength(value, 'base64') : Buffer.byteLength(value);
  }
  if (value instanceof Uint8Array) return value.byteLength;
  return Buffer.byteLength(value instanceof PyObject ? value.repr : String(value));
}
