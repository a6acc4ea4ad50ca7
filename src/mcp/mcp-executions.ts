/** Executions started by MCP clients. One can outlive the call that started it, while a person is being asked. */

import { randomBytes } from 'node:crypto';
import type { CallToolResult, ElicitRequestFormParams } from '@modelcontextprotocol/server';
import { onAbort } from '../lib/abort.ts';
import type { ExecutionEvent, InputRequestEvent } from '../protocol/execution-events.ts';
import type { Approval, ApprovalRequest } from '../protocol/permission.ts';
import type { RunOptions, SessionApi } from '../session/api.ts';
import {
  approvalForm,
  type Elicitation,
  type ElicitationAnswer,
  ElicitationQueue,
  inputForm,
  toApproval,
} from './elicitation.ts';
import {
  appendLine,
  ExecutionOutput,
  type LogLine,
  saveFullOutput,
  toErrorResult,
  toExecutionReport,
} from './execution-result.ts';

/** Limits what the calls of one user take. Each result counts until disposed of. */
export interface CallLimits {
  /** Throws if the user has too many unfinished calls. */
  begin(userId: string | undefined): Disposable;
  /** Waits for memory for a large result. Throws if the call is cancelled first. */
  reserve(userId: string | undefined, bytes: number, signal: AbortSignal): Promise<Disposable>;
  /** Counts a result that waits for its client. `drop` is called if the user needs the memory. */
  hold(userId: string | undefined, bytes: number, drop: () => void): Disposable;
  /** Counts a connection that is kept for its client. `drop` is called if its user has too many, and uses it least. */
  connect(userId: string | undefined, drop: () => void): KeptConnection;
}

export interface KeptConnection extends Disposable {
  /** It was used just now. */
  used(): void;
}

interface RunCodeRequest {
  readonly code: string;
  readonly timeoutMs: number;
  readonly transaction?: RunOptions['transaction'];
}

interface ExecutionQueueOptions {
  /** Opens the session if it is not open. */
  readonly acquire: (signal: AbortSignal) => Promise<SessionApi>;
  readonly release: () => void;
  readonly log: LogLine;
}

const NO_PASSWORDS =
  'getpass() was called, but an MCP client must not ask for secrets: use a tool that gets the secret on the host';
const NO_ELICITATION =
  'input() was called, but this MCP client cannot ask its user (it has no elicitation): put the value into the code';

/** The executions of one agent key, in the order of their calls. */
export class McpExecutions {
  readonly #options: ExecutionQueueOptions;
  readonly #executions = new Set<McpExecution>();
  /** In execution order: the first one is running. */
  readonly #inOrder: McpExecution[] = [];

  constructor(options: ExecutionQueueOptions) {
    this.#options = options;
  }

  get idle(): boolean {
    return this.#executions.size === 0;
  }

  /** Whether the client of the running execution can ask a person. */
  get canElicit(): boolean {
    return this.#inOrder[0]?.canElicit === true;
  }

  begin(request: RunCodeRequest, caller: CallClient): McpExecution {
    const execution = new McpExecution(caller, (begun) => this.#perform(begun, request));
    this.#executions.add(execution);
    void execution.ended.then(() => this.#executions.delete(execution));
    return execution;
  }

  /** For calls that wait for the session to open. */
  report(text: string): void {
    for (const execution of this.#executions) execution.report(`${text}\n`);
  }

  /** The session calls this before it uses a tool that requires approval. */
  readonly approve = async (request: ApprovalRequest): Promise<Approval> => {
    const execution = this.#inOrder[0];
    if (!execution?.canElicit)
      return { allowed: false, reason: 'nobody can be asked: this MCP client has no elicitation' };
    return toApproval(await execution.elicit(approvalForm(request), request.signal));
  };

  async close(): Promise<void> {
    const all = [...this.#executions];
    for (const execution of all) execution.cancel();
    await Promise.all(all.map(({ ended }) => ended));
  }

  async #perform(execution: McpExecution, { code, timeoutMs, transaction }: RunCodeRequest): Promise<CallToolResult> {
    try {
      const session = await this.#options.acquire(execution.signal);
      // No await between here and `session.run`, because both queues must have the same order.
      this.#inOrder.push(execution);
      const result = await session.run(code, {
        timeoutMs,
        // Longer than the timeout of the elicitation, which can give a reason.
        inputTimeoutMs: ANSWER_TIMEOUT_MS + 10_000,
        signal: execution.signal,
        transaction,
        onEvent: (event) => execution.onEvent(event),
        onInput: (asked) => answerInput(execution, session, asked),
      });
      const report = toExecutionReport(result, execution.output);
      if (report.fullOutput === undefined) return report.result;
      const { agentKey } = session;
      const where = await saveFullOutput(session, { agentKey, execution: result.execution, ...report.fullOutput });
      return appendLine(report.result, where);
    } catch (error) {
      return toErrorResult(error, this.#options.log);
    } finally {
      const at = this.#inOrder.indexOf(execution);
      if (at >= 0) this.#inOrder.splice(at, 1);
      this.#options.release();
    }
  }
}

async function answerInput(
  execution: McpExecution,
  session: SessionApi,
  { id, prompt, password }: InputRequestEvent,
): Promise<string> {
  const asked = !password && execution.canElicit ? await execution.elicit(inputForm(prompt)) : undefined;
  if (asked?.kind === 'accepted' && typeof asked.content.answer === 'string') return asked.content.answer;
  const reason =
    asked?.kind === 'declined' ? `input() has no answer: ${asked.reason}` : password ? NO_PASSWORDS : NO_ELICITATION;
  // The code sees this reason. The error below arrives too late to be shown.
  await session.cancelInput(id, reason).catch(() => {});
  throw new Error(reason);
}

/** How long a person has to answer. */
const ANSWER_TIMEOUT_MS = 300_000;

const MAX_UNSENT_CHARACTERS = 2000;

/** The call that waits for an execution. */
export interface CallClient {
  readonly signal: AbortSignal;
  /** Whether it can ask a person. */
  readonly canElicit: boolean;
  report(text: string): void;
}

type NextEvent =
  | { readonly kind: 'elicitation'; readonly elicitation: Elicitation }
  | { readonly kind: 'done'; readonly result: CallToolResult };

/** One execution that a client has started. */
export class McpExecution {
  output = new ExecutionOutput();
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();
  readonly #elicitations = new ElicitationQueue(() => this.#changed.resolve(), ANSWER_TIMEOUT_MS);
  #changed = Promise.withResolvers<void>();
  #caller: CallClient | undefined;
  #canElicit = false;
  #unsent = '';
  #result: CallToolResult | undefined;

  /** `perform` never rejects. */
  constructor(caller: CallClient, perform: (execution: McpExecution) => Promise<CallToolResult>) {
    this.#canElicit = caller.canElicit;
    this.#caller = caller;
    this.ended = perform(this).then((result) => {
      this.#result = result;
      // The result may wait for its client for minutes.
      this.output = new ExecutionOutput();
      this.#elicitations.close();
      this.#changed.resolve();
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get canElicit(): boolean {
    return this.#canElicit;
  }

  /** Sends progress to this caller and lets it cancel, until the result is disposed. */
  attach(caller: CallClient): Disposable {
    this.#caller = caller;
    this.#canElicit = caller.canElicit;
    if (this.#unsent !== '') caller.report(this.#unsent);
    this.#unsent = '';
    const aborting = onAbort(caller.signal, () => this.cancel());
    return {
      [Symbol.dispose]: () => {
        aborting[Symbol.dispose]();
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

  /** Keeps text for the next call while none is attached. */
  report(text: string): void {
    if (this.#caller) this.#caller.report(text);
    else this.#unsent = (this.#unsent + text).slice(-MAX_UNSENT_CHARACTERS);
  }

  elicit(form: ElicitRequestFormParams, signal?: AbortSignal): Promise<ElicitationAnswer> {
    return this.#elicitations.ask(form, signal);
  }

  /** The characters of its result; 0 before its end. */
  get resultCharacters(): number {
    const parts = this.#result?.content ?? [];
    return parts.reduce((sum, part) => sum + ('text' in part ? part.text : 'data' in part ? part.data : '').length, 0);
  }

  /** The next question for the person, or the result. */
  async next(): Promise<NextEvent> {
    for (;;) {
      if (this.#result) return { kind: 'done', result: this.#result };
      const elicitation = this.#elicitations.first;
      if (elicitation) return { kind: 'elicitation', elicitation };
      this.#changed = Promise.withResolvers();
      await this.#changed.promise;
    }
  }
}

/** How long to keep a result for a client that does not return. */
const RESULT_LIFETIME_MS = 600_000;
/** What a kept result takes, however short it is. */
const RESULT_BYTES = 4096;

interface PendingExecution {
  readonly execution: McpExecution;
  readonly elicitation: Elicitation;
  readonly userId: string | undefined;
  /** Set once it has ended. */
  readonly drop?: () => void;
}

/** Executions whose call ended with a question, by the token that the client returns with the answer. */
export class ExecutionsAwaitingAnswer {
  readonly #executions = new Map<string, PendingExecution>();
  readonly #limits: Pick<CallLimits, 'hold'>;

  constructor(limits: Pick<CallLimits, 'hold'>) {
    this.#limits = limits;
  }

  /** Returns an unguessable resume token that is valid for one answer. */
  add(pending: PendingExecution): string {
    const resumeToken = randomBytes(24).toString('base64url');
    this.#executions.set(resumeToken, pending);
    void pending.execution.ended.then(() => this.#keep(resumeToken));
    return resumeToken;
  }

  #keep(resumeToken: string): void {
    const pending = this.#executions.get(resumeToken);
    if (!pending) return;
    const drop = () => {
      this.#executions.delete(resumeToken);
      clearTimeout(late);
      held[Symbol.dispose]();
    };
    const late = setTimeout(drop, RESULT_LIFETIME_MS).unref();
    const bytes = RESULT_BYTES + pending.execution.resultCharacters;
    const held = this.#limits.hold(pending.userId, bytes, drop);
    this.#executions.set(resumeToken, { ...pending, drop });
  }

  take(resumeToken: string): PendingExecution | undefined {
    const found = this.#executions.get(resumeToken);
    this.#executions.delete(resumeToken);
    found?.drop?.();
    return found;
  }
}
