/** Asks a person, through the turn, whether Claude may use a tool, and passes on Claude's own questions. */

import { z } from 'zod';
import type { PermissionMode } from '../../protocol/turn.ts';
import type { AgentSetup, AgentTurn } from '../agent-adapter.ts';
import { truncateId, truncateInput, truncateText } from '../event-sender.ts';
import { patternOf, summaryOf } from './block-events.ts';
import type { CanUseTool, HookMatcher, ToolDecision } from './sdk-options.ts';
import { type GuardedFolders, staysInside } from './workspace-guard.ts';

/** Tools that change nothing: in `plan` mode, people may allow them. */
const READERS = new Set(['Read', 'Glob', 'Grep', 'WebFetch', 'WebSearch', 'ListMcpResources', 'ReadMcpResource']);
const PLANNING = 'In plan mode, nothing may be changed. Say what you would do; the person decides whether to do it.';
const FINISHED = 'The plan is saved. Stop here: the person starts the work in another turn.';

/**
 * Tools that need no permission: those that read files of the workspace, keep lists, or start subagents (each tool of a
 * subagent is checked here, too). A person decides about all others, whatever the program's own list of harmless tools and
 * commands says: even `git status` runs what the workspace's `.git/config` names.
 */
const UNASKED = new Set(['Read', 'Glob', 'Grep', 'ToolSearch', 'TodoWrite', 'Agent', 'Skill']);
const EDITORS = new Set(['Write', 'Edit', 'MultiEdit', 'NotebookEdit']);

const Call = z.looseObject({ tool_name: z.string(), tool_input: z.looseObject({}).default({}), cwd: z.string() });

/** Sends every tool that is not on our list, and every file outside of the workspace, to `canUseTool`. A failure blocks the tool. */
export function toolGuard(mode: Exclude<PermissionMode, 'bypass'>, folders: GuardedFolders): HookMatcher {
  const answer = (permissionDecision: 'ask' | 'deny', permissionDecisionReason: string) => ({
    hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision, permissionDecisionReason },
  });
  const hook = async (call: unknown) => {
    const { tool_name: tool, tool_input: input, cwd } = Call.parse(call);
    // Isolation would run git, with the hooks and filters of the workspace.
    if (tool === 'Agent' && input.isolation !== undefined) return answer('deny', 'Subagents work in the workspace.');
    const mayDecide = UNASKED.has(tool) || (mode === 'auto-edit' && EDITORS.has(tool));
    if (mayDecide && (await staysInside({ tool, input, cwd }, folders))) return {};
    return answer('ask', 'A person decides.');
  };
  return { hooks: [hook], onFailure: 'block' };
}

export function canUseTool(turn: AgentTurn, { cwd }: Pick<AgentSetup, 'cwd'>): CanUseTool {
  return async (tool, input, { signal, toolUseID }) => {
    const item = truncateId(toolUseID);
    if (tool === 'AskUserQuestion') return await answer(turn, input, { item, signal });
    if (turn.mode === 'plan' && !READERS.has(tool)) return deny(tool === 'ExitPlanMode' ? FINISHED : PLANNING);
    const pattern = patternOf(input, cwd);
    const summary = summaryOf(tool, input, cwd);
    const request = { item, tool: truncateId(tool), summary, input: truncateInput(input), pattern };
    const { allowed, reason } = await turn.permit(request, signal);
    if (!allowed) return deny(reason ?? 'The person denied it.');
    // Exactly the input that the person saw.
    return { behavior: 'allow', updatedInput: input };
  };
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

/** Asks the questions one after the other. */
async function answer(
  turn: AgentTurn,
  input: Record<string, unknown>,
  { item, signal }: { readonly item: string; readonly signal: AbortSignal },
): Promise<ToolDecision> {
  const parsed = Questions.safeParse(input);
  if (!parsed.success) return deny('This question cannot be shown.');
  const answers: [question: string, answer: string][] = [];
  for (const { question, options } of parsed.data.questions) {
    const text = truncateText(question, 8000);
    const choices = options?.map(({ label, description }) => ({
      label: truncateText(label, 1000),
      description: description === undefined ? undefined : truncateText(description, 2000),
    }));
    const request = { item, tool: 'AskUserQuestion', summary: text, question: { text, options: choices } };
    const given = await turn.permit(request, signal);
    if (!given.allowed) return deny(given.reason ?? 'The person did not answer.');
    answers.push([question, given.text ?? '']);
  }
  return { behavior: 'allow', updatedInput: { ...input, answers: Object.fromEntries(answers) } };
}

/** The turn continues, and the model reads the reason. */
function deny(message: string): ToolDecision {
  return { behavior: 'deny', message };
}
