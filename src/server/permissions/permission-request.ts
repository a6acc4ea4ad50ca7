/** Describes a permission request: what people see of it, and which rule could allow it. */

import { createHash } from 'node:crypto';
import { omitUndefined } from '../../lib/omit-undefined.ts';
import type { ApprovalRequest } from '../../namespaces/tools/tool-approval.ts';
import type { PermissionInfo, PermissionRequest } from '../../protocol/permission.ts';
import { valueToWire } from '../../protocol/py-values.ts';
import { newPermissionId } from '../ids.ts';
import {
  agentRuleTarget,
  exactPattern,
  kernelToolName,
  kernelToolRuleTarget,
  patternProblem,
  type RuledCall,
} from './permission-rules.ts';
import type { PermissionAsker } from './session-permissions.ts';

export interface DescribedPermission {
  readonly info: Omit<PermissionInfo, 'id' | 'session' | 'state' | 'requestedAt'>;
  /** What a rule would have to match; undefined if no rule can. */
  readonly rule: RuledCall | undefined;
  /** A digest of user and call: the same for the same call in any turn or execution. */
  readonly request: string;
}

export function describeAgentRequest(
  { item, tool, summary, input, pattern, question }: PermissionRequest,
  { user, turn }: Pick<PermissionAsker, 'user' | 'turn'>,
): DescribedPermission {
  const target = question ? undefined : agentRuleTarget({ tool, summary, input });
  // Only file contents may be truncated: everything else decides what the tool does.
  const shown = target?.kind === 'path' || question ? preview(input) : input;
  const facts = { turn, item, user, input: shown, pattern, question };
  const request = digest('agent', user, tool, summary, input, question);
  return { info: { tool, summary, ...omitUndefined(facts) }, rule: target && { tool, target }, request };
}

/** `running` is the execution that called the tool, and its user. */
export function describeToolCall(
  { tool, recipe, arguments: given, summary, definition }: ApprovalRequest,
  running: { readonly id: string; readonly by?: string | undefined } | undefined,
): DescribedPermission {
  const input = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, valueToWire(value)]));
  const facts = { recipe, definition, execution: running?.id, user: running?.by };
  const rule = { tool: kernelToolName(tool, recipe), target: kernelToolRuleTarget({ tool, summary }), definition };
  const request = digest('tool', running?.by, tool, recipe, summary, input, definition);
  return { info: { tool, summary, input, ...omitUndefined(facts) }, rule, request };
}

/** The ruled call of a request that is known only from its record. */
export function ruledCallOf({
  turn,
  tool,
  recipe,
  definition,
  summary,
  input,
  question,
}: PermissionInfo): DescribedPermission['rule'] {
  if (turn === undefined) {
    return { tool: kernelToolName(tool, recipe), target: kernelToolRuleTarget({ tool, summary }), definition };
  }
  const target = question ? undefined : agentRuleTarget({ tool, summary, input });
  return target && { tool, target };
}

export function newPermissionInfo(
  { info, rule }: Omit<DescribedPermission, 'request'>,
  session: string,
  timeoutMs: number,
): PermissionInfo {
  const again = rule && exactPattern(rule.target.text);
  const requestedAt = Date.now();
  return {
    ...{ id: newPermissionId(), session, state: 'pending', requestedAt },
    ...info,
    ...(again === undefined || patternProblem(again) !== undefined ? {} : { exactly: again }),
    ...(timeoutMs === 0 ? {} : { expiresAt: requestedAt + timeoutMs }),
  };
}

function digest(...parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** Longer requests are refused: nobody would read them before they allow them. */
const MAX_SHOWN_CHARACTERS = 64 * 1024;
/** The limit of one text in the input, such as a file's content. */
const MOST_TEXT = 16_000;
const MOST_ITEMS = 200;
const MOST_DEPTH = 8;

export function isTooLong(shown: unknown): boolean {
  return JSON.stringify(shown).length > MAX_SHOWN_CHARACTERS;
}

/** Truncates long texts and lists, with a mark. */
function preview(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return truncate(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MOST_DEPTH) return '…';
  if (Array.isArray(value)) {
    const items = value.slice(0, MOST_ITEMS).map((item) => preview(item, depth + 1));
    return value.length > MOST_ITEMS ? [...items, `… (${value.length} items)`] : items;
  }
  const entries = Object.entries(value).slice(0, MOST_ITEMS);
  return Object.fromEntries(entries.map(([name, item]) => [name, preview(item, depth + 1)]));
}

function truncate(text: string): string {
  if (text.length <= MOST_TEXT) return text;
  return `${text.slice(0, MOST_TEXT).toWellFormed()}… (${text.length} characters)`;
}
