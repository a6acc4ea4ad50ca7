/** Claude asks whether it may use a tool, or asks the person something: both go to a person, by way of the turn. */

import { z } from 'zod';
import { boundedId, boundedInput, boundedText } from '../bounded.ts';
import type { AgentSetup, PermissionAnswer, PermissionAsk, Turn } from '../contract.ts';
import type { CanUseTool, Decision } from './sdk.ts';
import { patternOf, summaryOf } from './summary.ts';

/** In `plan` a person may let these through: they change nothing. */
const READERS = new Set(['Read', 'Glob', 'Grep', 'WebFetch', 'WebSearch', 'ListMcpResources', 'ReadMcpResource']);
const PLANNING = 'In plan mode nothing is changed. Say what you would do; the person decides whether it is done.';
const FINISHED = 'The plan is kept. Stop here: the person starts the work in another turn.';

export function askFor(turn: Turn, { cwd }: Pick<AgentSetup, 'cwd'>): CanUseTool {
  return async (tool, input, { signal, toolUseID }) => {
    const over = AbortSignal.any([turn.signal, signal]);
    const item = boundedId(toolUseID);
    if (tool === 'AskUserQuestion') return await answer(turn, input, { item, over });
    if (turn.mode === 'plan' && !READERS.has(tool)) return deny(tool === 'ExitPlanMode' ? FINISHED : PLANNING);
    const pattern = patternOf(input, cwd);
    const summary = summaryOf(tool, input, cwd);
    const asked = { item, tool: boundedId(tool), summary, input: boundedInput(input) };
    const { allowed, reason } = await permit(turn, over, { ...asked, ...(pattern === undefined ? {} : { pattern }) });
    if (!allowed) return deny(reason ?? 'The person does not allow it.');
    // What the person saw is what is done: the input is the one that was asked with.
    return { behavior: 'allow', updatedInput: input };
  };
}

/** Whoever stops the turn waits for nobody. */
async function permit(turn: Turn, over: AbortSignal, ask: PermissionAsk): Promise<PermissionAnswer> {
  const stopped = Promise.withResolvers<PermissionAnswer>();
  const stop = () => stopped.resolve({ allowed: false, reason: 'The turn was stopped.' });
  over.addEventListener('abort', stop, { once: true });
  if (over.aborted) stop();
  try {
    return await Promise.race([turn.permit(ask), stopped.promise]);
  } finally {
    over.removeEventListener('abort', stop);
  }
}

const Questions = z.looseObject({
  questions: z
    .array(
      z.object({
        question: z.string(),
        options: z.array(z.object({ label: z.string(), description: z.string().optional() })).optional(),
      }),
    )
    .min(1)
    .max(20),
});

/** One after the other: each is answered in its own words. */
async function answer(
  turn: Turn,
  input: Record<string, unknown>,
  { item, over }: { readonly item: string; readonly over: AbortSignal },
): Promise<Decision> {
  const parsed = Questions.safeParse(input);
  if (!parsed.success) return deny('This is no question that can be shown.');
  const answers: [question: string, answer: string][] = [];
  for (const { question, options } of parsed.data.questions) {
    const text = boundedText(question, 8000);
    const choices = options?.map(({ label, description }) => ({
      label: boundedText(label, 1000),
      ...(description === undefined ? {} : { description: boundedText(description, 2000) }),
    }));
    const asked = {
      item,
      tool: 'AskUserQuestion',
      summary: text,
      question: { text, ...(choices ? { options: choices } : {}) },
    };
    const given = await permit(turn, over, asked);
    if (!given.allowed) return deny(given.reason ?? 'The person does not answer.');
    answers.push([question, given.text ?? '']);
  }
  return { behavior: 'allow', updatedInput: { ...input, answers: Object.fromEntries(answers) } };
}

/** Without more: the turn goes on, and the model reads the reason. */
function deny(message: string): Decision {
  return { behavior: 'deny', message };
}
