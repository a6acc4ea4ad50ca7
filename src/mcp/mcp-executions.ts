/** Executions that MCP clients have started. One can outlive the call that started it, while a person is being asked. */

import { randomBytes } from 'node:crypto';
import type { CallToolResult, ElicitRequestFormParams } from '@modelcontextprotocol/server';
import type { Approval, ApprovalRequest } from '../namespaces/tools/tool-approval.ts';
import type { ExecutionEvent, InputRequestEvent } from '../protocol/execution-events.ts';
import type { RunOptions, SessionApi } from '../session/api.ts';
import { BoundedOutput } from './bounded-output.ts';
import {
  approvalForm,
  type Elicitation,
  type ElicitationAnswer,
  ElicitationQueue,
  inputForm,
  toApproval,
} from './elicitation.ts';
import { appendLine, type LogLine, saveFullOutput, toErrorResult, toExecutionReport } from './execution-result.ts';

interface RunCodeRequest {
  readonly code: string;
  readonly timeoutMs: number;
  readonly transaction?: RunOptions['transaction'];
}

interface ExecutionQueueOptions {
  /** Opens the session where it is not open. */
  readonly acquire: (signal: AbortSignal) => Promise<SessionApi>;
  readonly release: () => void;
  readonly log: LogLine;
}

const NO_PASSWORDS =
  'getpass() was called, but a form of an MCP client must not ask for secrets: let a tool that runs on the host use it';
const NO_ELICITATION =
  'input() was called, but this MCP client cannot ask anybody (it has no elicitation): put the value into the code';

export class ExecutionQueue {
  readonly #parts: ExecutionQueueOptions;
  readonly #runs = new Set<McpExecution>();
  /** In the order of their execution: the first is the one that runs. */
  readonly #queue: McpExecution[] = [];

  constructor(parts: ExecutionQueueOptions) {
    this.#parts = parts;
  }

  get idle(): boolean {
    return this.#runs.size === 0;
  }

  /** Whether what runs came from somebody who can be asked. */
  get canAsk(): boolean {
    return this.#queue[0]?.canElicit === true;
  }

  begin(request: RunCodeRequest, caller: CallClient): McpExecution {
    const run = new McpExecution(caller, (begun) => this.#perform(begun, request));
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    return run;
  }

  /** For whoever waits until the session is open. */
  report(text: string): void {
    for (const run of this.#runs) run.report(`${text}\n`);
  }

  /** Asked by the session before a tool is used that needs it. */
  readonly approve = async (request: ApprovalRequest): Promise<Approval> => {
    const run = this.#queue[0];
    if (!run?.canElicit)
      return { allowed: false, reason: 'nobody is there to ask: this MCP client has no elicitation' };
    return toApproval(await run.elicit(approvalForm(request), request.signal));
  };

  async close(): Promise<void> {
    const all = [...this.#runs];
    for (const run of all) run.cancel();
    await Promise.all(all.map(({ ended }) => ended));
  }

  async #perform(run: McpExecution, { code, timeoutMs, transaction }: RunCodeRequest): Promise<CallToolResult> {
    try {
      const session = await this.#parts.acquire(run.signal);
      // From here to the session without a pause, so that both have them in one order.
      this.#queue.push(run);
      const result = await session.run(code, {
        timeoutMs,
        // The question itself gives up first, and can say so.
        inputTimeoutMs: ANSWER_TIMEOUT_MS + 10_000,
        signal: run.signal,
        ...(transaction === undefined ? {} : { transaction }),
        onEvent: (event) => run.onEvent(event),
        onInput: (asked) => answerInput(run, session, asked),
      });
      const report = toExecutionReport(result, run.output);
      if (report.fullOutput === undefined) return report.result;
      const { agentKey } = session;
      const where = await saveFullOutput(session, { agentKey, execution: result.execution, ...report.fullOutput });
      return appendLine(report.result, where);
    } catch (error) {
      return toErrorResult(error, this.#parts.log);
    } finally {
      const at = this.#queue.indexOf(run);
      if (at >= 0) this.#queue.splice(at, 1);
      this.#parts.release();
    }
  }
}

async function answerInput(
  run: McpExecution,
  session: SessionApi,
  { id, prompt, password }: InputRequestEvent,
): Promise<string> {
  const asked = !password && run.canElicit ? await run.elicit(inputForm(prompt)) : undefined;
  if (asked?.kind === 'given' && typeof asked.content.answer === 'string') return asked.content.answer;
  const reason =
    asked?.kind === 'refused' ? `input() has no answer: ${asked.reason}` : password ? NO_PASSWORDS : NO_ELICITATION;
  // Told in these words; that the answer failed, which throwing would tell, is then too late.
  await session.cancelInput(id, reason).catch(() => {});
  throw new Error(reason);
}

/** How long a person has to answer. */
const ANSWER_TIMEOUT_MS = 300_000;

const MAX_UNSENT_CHARACTERS = 2000;

/** The call that waits for a run. */
export interface CallClient {
  readonly signal: AbortSignal;
  /** Whether it can put a question to a person. */
  readonly canElicit: boolean;
  report(text: string): void;
}

type NextEvent =
  | { readonly kind: 'question'; readonly question: Elicitation }
  | { readonly kind: 'done'; readonly result: CallToolResult };

export class McpExecution {
  readonly output = new BoundedOutput();
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();
  readonly #questions = new ElicitationQueue(() => this.#changed.resolve(), ANSWER_TIMEOUT_MS);
  #changed = Promise.withResolvers<void>();
  #caller: CallClient | undefined;
  #canAsk = false;
  #untold = '';
  #result: CallToolResult | undefined;

  /** `perform` never rejects. */
  constructor(caller: CallClient, perform: (run: McpExecution) => Promise<CallToolResult>) {
    this.#canAsk = caller.canElicit;
    this.#caller = caller;
    this.ended = perform(this).then((result) => {
      this.#result = result;
      this.#questions.close();
      this.#changed.resolve();
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get canElicit(): boolean {
    return this.#canAsk;
  }

  /** Until it is disposed, this caller hears of progress and can cancel. */
  attach(caller: CallClient): Disposable {
    this.#caller = caller;
    this.#canAsk = caller.canElicit;
    if (this.#untold !== '') caller.report(this.#untold);
    this.#untold = '';
    const cancel = () => this.cancel();
    if (caller.signal.aborted) cancel();
    caller.signal.addEventListener('abort', cancel);
    return {
      [Symbol.dispose]: () => {
        caller.signal.removeEventListener('abort', cancel);
        if (this.#caller === caller) this.#caller = undefined;
      },
    };
  }

  cancel(): void {
    this.#abort.abort();
  }

  onEvent(event: ExecutionEvent): void {
    this.output.take(event);
    if (event.type === 'stdout' || event.type === 'stderr') this.report(event.text);
    if (event.type === 'progress') this.report(`${event.task}: ${event.text}\n`);
  }

  /** What is told while nobody listens is for the next caller. */
  report(text: string): void {
    if (this.#caller) this.#caller.report(text);
    else this.#untold = (this.#untold + text).slice(-MAX_UNSENT_CHARACTERS);
  }

  elicit(form: ElicitRequestFormParams, signal?: AbortSignal): Promise<ElicitationAnswer> {
    return this.#questions.ask(form, signal);
  }

  /** What is to be done next: a question to be put, or the end. */
  async next(): Promise<NextEvent> {
    for (;;) {
      if (this.#result) return { kind: 'done', result: this.#result };
      const question = this.#questions.first;
      if (question) return { kind: 'question', question };
      this.#changed = Promise.withResolvers();
      await this.#changed.promise;
    }
  }
}

/** How long the result of a run waits for a client that does not come back. */
const RESULT_LIFETIME_MS = 600_000;

interface PendingExecution {
  readonly execution: McpExecution;
  readonly elicitation: Elicitation;
}

export class PendingExecutions {
  readonly #runs = new Map<string, PendingExecution>();

  /** The word cannot be guessed, and is good for one answer. */
  add(suspension: PendingExecution): string {
    const word = randomBytes(24).toString('base64url');
    this.#runs.set(word, suspension);
    void suspension.execution.ended.then(() => setTimeout(() => this.#runs.delete(word), RESULT_LIFETIME_MS).unref());
    return word;
  }

  take(word: string): PendingExecution | undefined {
    const found = this.#runs.get(word);
    this.#runs.delete(word);
    return found;
  }
}
