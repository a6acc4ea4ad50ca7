/** Permission requests as people see them, and as rules compare them. */

import { createHash } from 'node:crypto';
import { giveWay } from '../../lib/event-loop.ts';
import { isJsonLonger, jsonText } from '../../protocol/json-pieces.ts';
import type { ApprovalRequest, PermissionInfo, PermissionRequest } from '../../protocol/permission.ts';
import { valueToWire } from '../../protocol/py-values.ts';
import { newSortableId } from '../ids.ts';
import {
  agentRuleTarget,
  exactRulePattern,
  kernelToolName,
  kernelToolRuleTarget,
  type RuleTarget,
} from './permission-rules.ts';
import type { PermissionAsker } from './session-permissions.ts';

/** A tool call that a rule may allow. */
export interface RuledCall {
  readonly tool: string;
  readonly target: RuleTarget;
  /** The digest of a kernel tool's definition. */
  readonly definition?: string | undefined;
}

export interface DescribedPermission {
  readonly info: Omit<PermissionInfo, 'id' | 'session' | 'state' | 'requestedAt'>;
  /** What a rule would have to match; undefined if no rule can. */
  readonly rule: RuledCall | undefined;
  /** A digest of user and call: the same for the same call in any turn or execution. */
  readonly request: string;
}

export async function describeAgentRequest(
  { item, tool, summary, input, pattern, question }: PermissionRequest,
  { user, turn }: Pick<PermissionAsker, 'user' | 'turn'>,
): Promise<DescribedPermission> {
  const target = question ? undefined : agentRuleTarget({ tool, summary, input });
  // Only file contents may be truncated: everything else decides what the tool does.
  const shown = target?.kind === 'path' || question ? preview(input) : input;
  const request = await digest('agent', user, tool, summary, input, question);
  const info = { tool, summary, turn, item, user, input: shown, pattern, question };
  return { info, rule: target && { tool, target }, request };
}

/** `running` is the execution that called the tool, and its user. */
export async function describeToolCall(
  { tool, recipe, arguments: given, summary, definition }: ApprovalRequest,
  running: { readonly id: string; readonly by?: string | undefined } | undefined,
): Promise<DescribedPermission> {
  const input = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, valueToWire(value)]));
  const rule = { tool: kernelToolName(tool, recipe), target: kernelToolRuleTarget({ tool, summary }), definition };
  const request = await digest('tool', running?.by, tool, recipe, summary, input, definition);
  const info = { tool, summary, input, recipe, definition, execution: running?.id, user: running?.by };
  return { info, rule, request };
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
  const requestedAt = Date.now();
  return {
    ...{ id: newSortableId('prm'), session, state: 'pending', requestedAt },
    ...info,
    exactly: rule && exactRulePattern(rule.target.text),
    expiresAt: timeoutMs === 0 ? undefined : requestedAt + timeoutMs,
  };
}

async function digest(...parts: readonly unknown[]): Promise<string> {
  const text = await jsonText(parts);
  const hash = createHash('sha256');
  for (const piece of typeof text === 'string' ? [text] : text) {
    hash.update(piece);
    await giveWay();
  }
  return hash.digest('hex');
}

/** Longer requests are refused: a person would not read them before allowing them. */
const MAX_SHOWN_CHARACTERS = 64 * 1024;
/** The limit of one text in the input, such as a file's content. */
const MOST_TEXT = 16_000;
const MOST_ITEMS = 200;
const MOST_DEPTH = 8;

export function isTooLong(shown: unknown): boolean {
  return isJsonLonger(shown, MAX_SHOWN_CHARACTERS);
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
