/** The runs of one agent: in the order they came, in its session, with somebody to ask where the client can. */

import type { CallToolResult } from '@modelcontextprotocol/server';
import type { Approval, ApprovalRequest } from '../namespaces/tools/tool-approval.ts';
import type { InputRequestEvent } from '../protocol/execution-events.ts';
import type { RunOptions, SessionApi } from '../session/api.ts';
import { failureOf, type Log } from './failure.ts';
import { approvalForm, approvalOf, inputForm } from './forms.ts';
import { keepOutput } from './full-output.ts';
import { reportOf, withLine } from './report.ts';
import { type Caller, PATIENCE_MS, Run } from './run.ts';

export interface RunRequest {
  readonly code: string;
  readonly timeoutMs: number;
  readonly transaction?: RunOptions['transaction'];
}

export interface DeskParts {
  /** Opens the session where it is not open. */
  readonly acquire: (signal: AbortSignal) => Promise<SessionApi>;
  readonly release: () => void;
  readonly log: Log;
}

const NO_SECRETS =
  'getpass() was called, but a form of an MCP client must not ask for secrets: let a tool that runs on the host use it';
const NOBODY =
  'input() was called, but this MCP client cannot ask anybody (it has no elicitation): put the value into the code';

export class Desk {
  readonly #parts: DeskParts;
  readonly #runs = new Set<Run>();
  /** In the order of their execution: the first is the one that runs. */
  readonly #queue: Run[] = [];

  constructor(parts: DeskParts) {
    this.#parts = parts;
  }

  get idle(): boolean {
    return this.#runs.size === 0;
  }

  /** Whether what runs came from somebody who can be asked. */
  get canAsk(): boolean {
    return this.#queue[0]?.canAsk === true;
  }

  begin(request: RunRequest, caller: Caller): Run {
    const run = new Run(caller, (begun) => this.#perform(begun, request));
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    return run;
  }

  /** For whoever waits until the session is open. */
  tell(text: string): void {
    for (const run of this.#runs) run.tell(`${text}\n`);
  }

  /** Asked by the session before a tool is used that needs it. */
  readonly approve = async (request: ApprovalRequest): Promise<Approval> => {
    const run = this.#queue[0];
    if (!run?.canAsk) return { allowed: false, reason: 'nobody is there to ask: this MCP client has no elicitation' };
    return approvalOf(await run.ask(approvalForm(request), request.signal));
  };

  async close(): Promise<void> {
    const all = [...this.#runs];
    for (const run of all) run.cancel();
    await Promise.all(all.map(({ ended }) => ended));
  }

  async #perform(run: Run, { code, timeoutMs, transaction }: RunRequest): Promise<CallToolResult> {
    try {
      const session = await this.#parts.acquire(run.signal);
      // From here to the session without a pause, so that both have them in one order.
      this.#queue.push(run);
      const result = await session.run(code, {
        timeoutMs,
        // The question itself gives up first, and can say so.
        inputTimeoutMs: PATIENCE_MS + 10_000,
        signal: run.signal,
        ...(transaction === undefined ? {} : { transaction }),
        onEvent: (event) => run.take(event),
        onInput: (asked) => answerInput(run, session, asked),
      });
      const report = reportOf(result, run.output);
      if (report.uncut === undefined) return report.result;
      const { agentKey } = session;
      const where = await keepOutput(session, { agentKey, execution: result.execution, ...report.uncut });
      return withLine(report.result, where);
    } catch (error) {
      return failureOf(error, this.#parts.log);
    } finally {
      const at = this.#queue.indexOf(run);
      if (at >= 0) this.#queue.splice(at, 1);
      this.#parts.release();
    }
  }
}

async function answerInput(
  run: Run,
  session: SessionApi,
  { id, prompt, password }: InputRequestEvent,
): Promise<string> {
  const asked = !password && run.canAsk ? await run.ask(inputForm(prompt)) : undefined;
  if (asked?.kind === 'given' && typeof asked.content.answer === 'string') return asked.content.answer;
  const reason = asked?.kind === 'refused' ? `input() has no answer: ${asked.reason}` : password ? NO_SECRETS : NOBODY;
  // Told in these words; that the answer failed, which throwing would tell, is then too late.
  await session.cancelInput(id, reason).catch(() => {});
  throw new Error(reason);
}
