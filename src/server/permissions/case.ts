/** What is asked, whoever asks: what people see of it, and what a rule would be about. */

import { createHash } from 'node:crypto';
import type { ApprovalRequest } from '../../namespaces/tools/tool-approval.ts';
import type { PermissionInfo } from '../../protocol/api/agent-routes.ts';
import { valueToWire } from '../../protocol/py-values.ts';
import { newPermissionId } from '../ids.ts';
import type { PermissionWish } from './contract.ts';
import { exactly, problemOf } from './pattern.ts';
import { shortened } from './shown.ts';
import { kernelTool, type RuledBy, subjectOfAgent, subjectOfTool } from './subject.ts';
import { defined } from './told.ts';

export interface Case {
  readonly info: Omit<PermissionInfo, 'id' | 'session' | 'state' | 'requestedAt'>;
  /** What a rule would call the tool, and be about; none where no rule can be. */
  readonly rule: RuledBy | undefined;
  /** The same for the very same thing on behalf of the same user, in whichever turn or execution. */
  readonly request: string;
}

export function caseOfAgent(wish: PermissionWish): Case {
  const { user, turn, item, tool, summary, input, pattern, question } = wish;
  const subject = question ? undefined : subjectOfAgent({ tool, summary, input });
  // What a file is to hold may be cut; what else the tool is given decides what it does.
  const shown = subject?.kind === 'path' || question ? shortened(input) : input;
  const facts = { turn, item, user, input: shown, pattern, question: question && asQuestion(question) };
  const request = digest('agent', user, tool, summary, input, question);
  return { info: { tool, summary, ...defined(facts) }, rule: subject && { tool, subject }, request };
}

/** `running` is the execution that called it, and who asked for that. */
export function caseOfTool(
  { tool, recipe, arguments: given, summary, definition }: ApprovalRequest,
  running: { readonly id: string; readonly by?: string | undefined } | undefined,
): Case {
  const input = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, valueToWire(value)]));
  const facts = { recipe, definition, execution: running?.id, user: running?.by };
  const rule = { tool: kernelTool(tool, recipe), subject: subjectOfTool({ tool, summary }), definition };
  const request = digest('tool', running?.by, tool, recipe, summary, input, definition);
  return { info: { tool, summary, input, ...defined(facts) }, rule, request };
}

/** What a rule would be about where all that there is of the request is its record. */
export function ruleOf({ turn, tool, recipe, definition, summary, input, question }: PermissionInfo): Case['rule'] {
  if (turn === undefined) {
    return { tool: kernelTool(tool, recipe), subject: subjectOfTool({ tool, summary }), definition };
  }
  const subject = question ? undefined : subjectOfAgent({ tool, summary, input });
  return subject && { tool, subject };
}

export function infoOf({ info, rule }: Omit<Case, 'request'>, session: string, timeoutMs: number): PermissionInfo {
  const again = rule && exactly(rule.subject.text);
  const requestedAt = Date.now();
  return {
    ...{ id: newPermissionId(), session, state: 'pending', requestedAt },
    ...info,
    ...(again === undefined || problemOf(again) !== undefined ? {} : { exactly: again }),
    ...(timeoutMs === 0 ? {} : { expiresAt: requestedAt + timeoutMs }),
  };
}

function asQuestion({ text, options }: NonNullable<PermissionWish['question']>) {
  return {
    text,
    ...(options === undefined ? {} : { options: options.map(({ label, ...more }) => ({ label, ...defined(more) })) }),
  };
}

function digest(...parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
