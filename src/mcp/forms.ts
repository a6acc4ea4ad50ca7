/** The forms that a client shows to a person, and how what comes back is read. Answers are untrusted. */

import { type ElicitRequestFormParams, inputResponse } from '@modelcontextprotocol/server';
import type { Approval, ApprovalRequest } from '../namespaces/tools/tool-approval.ts';
import type { Answer } from './questions.ts';

const MOST_SHOWN = 4000;

export function inputForm(prompt: string): ElicitRequestFormParams {
  const asked = prompt.trim() === '' ? 'The code waits for a line of input.' : `The code asks: ${prompt}`;
  return {
    mode: 'form',
    message: asked.slice(0, MOST_SHOWN).toWellFormed(),
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
    message: `The code wants to use the tool ${callee}:\n${summary}`.slice(0, MOST_SHOWN).toWellFormed(),
    requestedSchema: {
      type: 'object',
      properties: { allow: { type: 'boolean', title: 'Allow this call', default: false } },
      required: ['allow'],
    },
  };
}

/** Only a plain yes allows. */
export function approvalOf(answer: Answer): Approval {
  if (answer.kind === 'given') return answer.content.allow === true;
  return { allowed: false, reason: answer.reason };
}

/** A retried call carries its answers by key; `view` is the same for one that came back at once. */
export function answerOf(responses: Record<string, unknown> | undefined, key: string): Answer {
  const view = inputResponse(responses, key);
  if (view.kind !== 'elicit') return { kind: 'refused', reason: 'the client sent no answer' };
  if (view.action === 'accept') return { kind: 'given', content: view.content ?? {} };
  const reason = view.action === 'decline' ? 'the person who was asked declined' : 'the person who was asked cancelled';
  return { kind: 'refused', reason };
}
