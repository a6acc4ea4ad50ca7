/**
 * Waits for a run on behalf of a call. Where a person must be asked, clients of the 2025 protocol are asked while the
 * call stays open; those of the 2026 protocol get the question as the call's result, and call again with the answer.
 */

import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequiredResult,
  inputRequired,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { answerOf } from './forms.ts';
import { Progress } from './progress.ts';
import type { Question } from './questions.ts';
import type { Caller, Run } from './run.ts';
import type { Suspended } from './suspended.ts';

export type Era = 'legacy' | 'modern';

const KEY = 'question';
/** The question itself gives up long before. */
const NO_TIMEOUT_MS = 2_147_483_647;

export class Attendant implements Caller, Disposable {
  readonly canAsk: boolean;
  readonly #context: ServerContext;
  readonly #era: Era;
  readonly #suspended: Suspended;
  readonly #progress: Progress;

  constructor(context: ServerContext, server: McpServer, { era, suspended }: { era: Era; suspended: Suspended }) {
    this.#context = context;
    this.#era = era;
    this.#suspended = suspended;
    this.#progress = new Progress(context);
    this.canAsk = showsForms(context, server);
  }

  get signal(): AbortSignal {
    return this.#context.mcpReq.signal;
  }

  tell(text: string): void {
    this.#progress.tell(text);
  }

  /** The run that this call brings an answer for; undefined where it begins one. */
  resumed(): Run | 'unknown' | undefined {
    const word = this.#context.mcpReq.requestState();
    if (word === undefined) return undefined;
    const found = typeof word === 'string' ? this.#suspended.take(word) : undefined;
    if (!found) return 'unknown';
    found.question.settle(answerOf(this.#context.mcpReq.inputResponses, KEY));
    return found.run;
  }

  async attend(run: Run): Promise<CallToolResult | InputRequiredResult> {
    using _attached = run.attach(this);
    for (;;) {
      const step = await run.next();
      if (step.kind === 'done') return step.result;
      const { question } = step;
      if (this.#era === 'legacy') await this.#ask(question);
      else {
        // The call ends here, and with it its progress.
        await this.#progress.flush();
        const requestState = this.#suspended.keep({ run, question });
        return inputRequired({ inputRequests: { [KEY]: inputRequired.elicit(question.form) }, requestState });
      }
    }
  }

  [Symbol.dispose](): void {
    this.#progress[Symbol.dispose]();
  }

  async #ask(question: Question): Promise<void> {
    try {
      const signal = AbortSignal.any([question.over, this.signal]);
      const answer = await this.#context.mcpReq.elicitInput(question.form, { signal, timeout: NO_TIMEOUT_MS });
      question.settle(answerOf({ [KEY]: answer }, KEY));
    } catch (error) {
      question.settle({
        kind: 'refused',
        reason: `the client could not ask: ${error instanceof Error ? error.message : error}`,
      });
    }
  }
}

const Envelope = z.object({
  [CLIENT_CAPABILITIES_META_KEY]: z.custom<ClientCapabilities>((value) => Object(value) === value),
});

/** Clients of the 2026 protocol say it in each call, others once. One that names no kind of elicitation has forms. */
function showsForms(context: ServerContext, server: McpServer): boolean {
  const said = Envelope.safeParse(context.mcpReq.envelope);
  const capabilities = said.success ? said.data[CLIENT_CAPABILITIES_META_KEY] : server.server.getClientCapabilities();
  const elicitation = capabilities?.elicitation;
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}
