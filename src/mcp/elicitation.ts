/** Asks the person behind an MCP client: forms for input() and approvals, and parsing of the answers. */

import { type ElicitRequestFormParams, inputResponse } from '@modelcontextprotocol/server';
import type { Approval, ApprovalRequest } from '../protocol/permission.ts';

export type ElicitationAnswer =
  | { readonly kind: 'accepted'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly kind: 'declined'; readonly reason: string };

export interface Elicitation {
  readonly form: ElicitRequestFormParams;
  /** Aborts when the answer is no longer needed. */
  readonly closed: AbortSignal;
  settle(answer: ElicitationAnswer): void;
}

/** Asks one question at a time. */
export class ElicitationQueue {
  readonly #waiting: Elicitation[] = [];
  readonly #onChange: () => void;
  readonly #timeoutMs: number;

  constructor(onChange: () => void, timeoutMs: number) {
    this.#onChange = onChange;
    this.#timeoutMs = timeoutMs;
  }

  get first(): Elicitation | undefined {
    return this.#waiting[0];
  }

  /** Resolves with the answer, or as declined if none arrives in time. */
  ask(form: ElicitRequestFormParams, signal?: AbortSignal): Promise<ElicitationAnswer> {
    const settled = Promise.withResolvers<ElicitationAnswer>();
    const over = new AbortController();
    const settle = (answer: ElicitationAnswer) => {
      const at = this.#waiting.indexOf(elicitation);
      if (at < 0) return;
      this.#waiting.splice(at, 1);
      clearTimeout(timer);
      signal?.removeEventListener('abort', giveUp);
      over.abort();
      settled.resolve(answer);
      this.#onChange();
    };
    const giveUp = () => settle({ kind: 'declined', reason: 'the code no longer waits for an answer' });
    const late = `nobody has answered within ${this.#timeoutMs / 1000} s`;
    const timer = setTimeout(() => settle({ kind: 'declined', reason: late }), this.#timeoutMs);
    const elicitation: Elicitation = { form, closed: over.signal, settle };
    this.#waiting.push(elicitation);
    if (signal?.aborted) giveUp();
    else signal?.addEventListener('abort', giveUp);
    this.#onChange();
    return settled.promise;
  }

  /** Called when the code has ended. */
  close(): void {
    for (const question of [...this.#waiting]) question.settle({ kind: 'declined', reason: 'the code has ended' });
  }
}

const MAX_MESSAGE_CHARACTERS = 4000;

export function inputForm(prompt: string): ElicitRequestFormParams {
  const asked = prompt.trim() === '' ? 'The code waits for a line of input.' : `The code asks: ${prompt}`;
  return {
    mode: 'form',
    message: asked.slice(0, MAX_MESSAGE_CHARACTERS).toWellFormed(),
    requestedSchema: {
      type: 'object',
      properties: { answer: { type: 'string', title: 'Answer' } },
      required: ['answer'],
    },
  };
}

export function approvalForm({ tool, recipe, summary }: ApprovalRequest): ElicitRequestFormParams {
  const callee = recipe === undefined ? tool : `${tool}.${recipe}`;
  return {
    mode: 'form',
    message: `The code wants to use the tool ${callee}:\n${summary}`.slice(0, MAX_MESSAGE_CHARACTERS).toWellFormed(),
    requestedSchema: {
      type: 'object',
      properties: { allow: { type: 'boolean', title: 'Allow this call', default: false } },
      required: ['allow'],
    },
  };
}

/** Only a plain yes approves. */
export function toApproval(answer: ElicitationAnswer): Approval {
  if (answer.kind === 'accepted') return answer.content.allow === true;
  return { allowed: false, reason: answer.reason };
}

/** A repeated call carries its answers by key; `view` is the same for an answer that arrived directly. */
export function parseElicitation(responses: Record<string, unknown> | undefined, key: string): ElicitationAnswer {
  const view = inputResponse(responses, key);
  if (view.kind !== 'elicit') return { kind: 'declined', reason: 'the client sent no answer' };
  if (view.action === 'accept') return { kind: 'accepted', content: view.content ?? {} };
  const reason = view.action === 'decline' ? 'the person declined' : 'the person cancelled';
  return { kind: 'declined', reason };
}
