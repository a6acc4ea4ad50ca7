/**
 * Maps blocks of a conversation to events, with their tools, plans, usage and failures. The live stream and the transcript
 * share it, so that both give the same events.
 */

import { relative, resolve } from 'node:path';
import { z } from 'zod';
import type { AgentEvent, ItemKind } from '../../protocol/agent-events.ts';
import { errorCodes } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AgentFailure, TokenUsage } from '../../protocol/turn.ts';
import { oneLine, truncateId, truncateInput, truncateText, withoutDepth } from '../event-sender.ts';
import { Block, type ClaudeModelUsage, type ToolResult, type ToolUse } from './sdk-messages.ts';

/** Why a tool did not run, or `ran`. */
export type ToolOutcome = 'ran' | 'denied' | 'cancelled';

interface BlockContext {
  /** The subagent that it belongs to. */
  readonly parent?: string | undefined;
}

interface SaidContext extends BlockContext {
  /** The item id of a text; a tool has its own id. */
  readonly item: string;
  readonly aborted?: boolean | undefined;
}

interface ResultContext extends BlockContext {
  readonly outcome: ToolOutcome;
  /** The program's own data about the result. */
  readonly facts: unknown;
}

const SUBAGENTS = new Set(['Agent', 'Task']);

export class BlockEvents {
  readonly #turn: string;
  readonly #cwd: string;
  readonly #open = new Map<string, ToolUse>();
  readonly #begun = new Set<string>();
  #answered = false;
  /** Streamed texts that are not complete yet. */
  readonly #streamed = new Map<string, { readonly kind: 'message' | 'reasoning'; text: string } & BlockContext>();

  constructor(turn: string, cwd: string) {
    this.#turn = turn;
    this.#cwd = cwd;
  }

  /** Once per turn: another model than the requested one may answer. */
  answeredBy(model: string | undefined, conversation: string | undefined): AgentEvent[] {
    if (model === undefined || conversation === undefined || this.#answered) return [];
    this.#answered = true;
    return [{ type: 'agent_session', turn: this.#turn, agent: 'claude', conversation, model: truncateId(model) }];
  }

  delta(kind: 'message' | 'reasoning', text: string, { item, parent }: SaidContext): AgentEvent[] {
    if (text === '') return [];
    const begins = this.#begins(kind, item, parent);
    const before = this.#streamed.get(item)?.text ?? '';
    this.#streamed.set(item, { kind, parent, text: before + text });
    return [...begins, { type: 'item_delta', turn: this.#turn, item, text: text.toWellFormed() }];
  }

  /** A complete block of the model. */
  blockSaid(given: unknown, where: SaidContext): AgentEvent[] {
    const block = Block.safeParse(given).data;
    switch (block?.type) {
      case 'text':
        return this.#text('message', block.text, where);
      case 'thinking':
        return this.#text('reasoning', block.thinking, where);
      case 'tool_use':
        return this.#toolBegins(block, where);
      case 'tool_result':
      case undefined:
        return [this.raw(given)];
    }
  }

  #begins(kind: ItemKind, item: string, parent: string | undefined): AgentEvent[] {
    if (this.#begun.has(item)) return [];
    this.#begun.add(item);
    return [{ type: 'item_started', turn: this.#turn, item, kind, ...parentField(parent) }];
  }

  /** Hidden reasoning has no text. */
  #text(kind: 'message' | 'reasoning', text: string, { item, parent, aborted }: SaidContext): AgentEvent[] {
    if (text === '' && !this.#begun.has(item)) return [];
    this.#streamed.delete(item);
    const status = aborted ? 'cancelled' : 'completed';
    return [
      ...this.#begins(kind, item, parent),
      {
        type: 'item_completed',
        turn: this.#turn,
        item,
        kind,
        ...parentField(parent),
        status,
        text: text.toWellFormed(),
      },
    ];
  }

  #toolBegins(use: ToolUse, { parent }: BlockContext): AgentEvent[] {
    const item = truncateId(use.id);
    if (this.#open.has(item)) return [];
    this.#open.set(item, use);
    const title = titleOf(use.name, use.input, this.#cwd);
    return [{ type: 'item_started', turn: this.#turn, item, ...parentField(parent), ...toolFields(use), title }];
  }

  toolEnded(result: ToolResult, { parent, outcome, facts }: ResultContext): AgentEvent[] {
    const item = truncateId(result.tool_use_id);
    const use = this.#open.get(item);
    if (!use) return [];
    this.#open.delete(item);
    const status = outcome === 'ran' ? (result.is_error ? 'failed' : 'completed') : outcome;
    // For a stopped tool, the program's text says nothing.
    const output = outcome === 'cancelled' ? {} : { output: truncateText(textOf(result)) };
    const ended: AgentEvent = {
      type: 'item_completed',
      turn: this.#turn,
      item,
      ...parentField(parent),
      ...toolFields(use),
      status,
      ...output,
    };
    if (status !== 'completed') return [ended];
    return [
      ended,
      ...planEvents(use, this.#turn),
      ...fileEvents(use, facts, { turn: this.#turn, item, cwd: this.#cwd }),
    ];
  }

  /** Ends incomplete texts with what has streamed. */
  interrupted(): AgentEvent[] {
    return [...this.#streamed].flatMap(([item, { kind, text, parent }]) =>
      this.#text(kind, text, { item, parent, aborted: true }),
    );
  }

  usage(usage: TokenUsage): AgentEvent[] {
    return [{ type: 'usage', turn: this.#turn, usage }];
  }

  notice(text: string): AgentEvent[] {
    return [{ type: 'agent_notice', turn: this.#turn, text: truncateText(text) }];
  }

  failed(error: AgentFailure): AgentEvent[] {
    return [{ type: 'agent_error', turn: this.#turn, error }];
  }

  raw(native: unknown): AgentEvent {
    return { type: 'agent_raw', turn: this.#turn, agent: 'claude', native: truncateInput(native) };
  }
}

function toolFields({ name, input }: ToolUse): { kind: ItemKind; tool: string; input: unknown } {
  return { kind: SUBAGENTS.has(name) ? 'subagent' : 'tool', tool: truncateId(name), input: truncateInput(input) };
}

function parentField(parent: string | undefined): { parent?: string } {
  return parent === undefined ? {} : { parent: truncateId(parent) };
}

function textOf({ content = '' }: ToolResult): string {
  if (typeof content === 'string') return content;
  return content.map((part) => part.text ?? `[${part.type}]`).join('\n');
}

const Todos = z.object({
  todos: z.array(z.object({ content: z.string(), status: z.enum(['pending', 'in_progress', 'completed']) })).max(1000),
});

function planEvents({ name, input }: ToolUse, turn: string): AgentEvent[] {
  const todos = name === 'TodoWrite' ? Todos.safeParse(input).data?.todos : undefined;
  if (!todos) return [];
  const entries = todos.map(({ content, status }) => ({ text: truncateText(content, 2000), status }));
  return [{ type: 'plan', turn, entries }];
}

const WRITERS = new Set(['Write', 'Edit', 'MultiEdit', 'NotebookEdit']);

/** Only editing tools: what commands change is unknown here. */
function fileEvents(
  { name, input }: ToolUse,
  facts: unknown,
  { turn, item, cwd }: { readonly turn: string; readonly item: string; readonly cwd: string },
): AgentEvent[] {
  if (!WRITERS.has(name)) return [];
  const named = fieldOf(input, 'file_path') ?? fieldOf(input, 'notebook_path');
  const path = named === undefined ? undefined : workspacePath(named, cwd);
  if (path === undefined) return [];
  const change = fieldOf(facts, 'type') === 'create' ? 'created' : 'modified';
  return [{ type: 'file_changed', turn, item, path, change }];
}

/** The program's names of provider errors. */
const REFUSED = new Set([
  'authentication_failed',
  'oauth_org_not_allowed',
  'account_on_hold',
  'verification_required',
  'cloud_credential_error',
  'invalid_request',
  'model_not_found',
]);
const LIMITED = new Set(['rate_limit', 'billing_error']);
/** The program's advice, which points to an address inside its sandbox. */
const OWN_ADVICE = /\s*This is a server-side issue, usually temporary.*$/s;

export function providerFailure(word: string, said: string): AgentFailure {
  // The gateway's message contains the advice that is a field of its own here.
  const message = said.replace(OWN_ADVICE, '').replace(errorCodes.PROVIDER_FAILED.advice, '');
  if (REFUSED.has(word)) return claudeFailure(new CellaError('PROVIDER_REFUSED', message));
  if (LIMITED.has(word)) return claudeFailure(new CellaError('PROVIDER_LIMITED', message));
  return claudeFailure(new CellaError('PROVIDER_FAILED', message));
}

export function claudeFailure({ code, message, advice }: CellaError): AgentFailure {
  return { code, message: truncateText(message.trim(), 4000), advice };
}

type ClaudeTokenCounts = ClaudeModelUsage[string];
const COUNT_FIELDS = [
  'inputTokens',
  'outputTokens',
  'cacheReadInputTokens',
  'cacheCreationInputTokens',
  'costUSD',
] as const;
const NO_USAGE: ClaudeTokenCounts = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  costUSD: 0,
};

/** Undefined if no model has answered. `model` is the one with the most output. */
export function usageOf(models: ClaudeModelUsage): TokenUsage | undefined {
  const used = Object.entries(models).filter(([, counts]) => COUNT_FIELDS.some((field) => counts[field] > 0));
  if (used.length === 0) return undefined;
  const sum = (field: keyof ClaudeTokenCounts) => used.reduce((total, [, counts]) => total + counts[field], 0);
  const [model] = used.reduce((most, one) => (one[1].outputTokens > most[1].outputTokens ? one : most));
  return {
    input: Math.round(sum('inputTokens')),
    output: Math.round(sum('outputTokens')),
    cacheRead: Math.round(sum('cacheReadInputTokens')),
    cacheWrite: Math.round(sum('cacheCreationInputTokens')),
    // Rounded, because floating-point sums depend on the order.
    costUsd: Number(sum('costUSD').toFixed(9)),
    model,
  };
}

/** The transcript counts from the start of the conversation; a turn is the difference. */
export function usageSince(before: ClaudeModelUsage, after: ClaudeModelUsage): ClaudeModelUsage {
  const more = (model: string, counts: ClaudeTokenCounts): ClaudeTokenCounts => {
    const earlier = before[model] ?? NO_USAGE;
    const entries = COUNT_FIELDS.map((field) => [field, Math.max(0, counts[field] - earlier[field])] as const);
    return { ...NO_USAGE, ...Object.fromEntries(entries) };
  };
  return Object.fromEntries(Object.entries(after).map(([model, counts]) => [model, more(model, counts)]));
}

const MOST_SUMMARY = 10_000;
const MOST_PATTERN = 1000;
const Fields = z.looseObject({});
const nonEmptyText = z.string().min(1);

export function fieldOf(input: unknown, name: string): string | undefined {
  const fields = Fields.safeParse(input);
  return fields.success && Object.hasOwn(fields.data, name)
    ? nonEmptyText.safeParse(fields.data[name]).data
    : undefined;
}

const FILE_FIELDS = ['file_path', 'notebook_path', 'path'] as const;

function pathOf(input: unknown): string | undefined {
  return FILE_FIELDS.map((name) => fieldOf(input, name)).find((path) => path !== undefined);
}

/** Describes a tool call so that a person can decide on it: commands and code are shown in full. */
export function summaryOf(tool: string, input: unknown, cwd: string): string {
  const command = fieldOf(input, 'command');
  if (command !== undefined) return command.slice(0, MOST_SUMMARY).toWellFormed();
  const code = fieldOf(input, 'code');
  if (code !== undefined && tool === 'mcp__cella__run_code') return code.slice(0, MOST_SUMMARY).toWellFormed();
  const path = pathOf(input);
  if (path !== undefined) return `${tool} ${oneLine(shownPath(path, cwd), 4096)}`;
  const other = fieldOf(input, 'url') ?? fieldOf(input, 'query') ?? fieldOf(input, 'description');
  if (other !== undefined) return `${tool} ${oneLine(other, 4096)}`;
  return `${tool} ${oneLine(JSON.stringify(withoutDepth(input)) ?? '', 1000)}`;
}

/** A short line for a list of tool calls. */
function titleOf(tool: string, input: unknown, cwd: string): string {
  return oneLine(fieldOf(input, 'description') ?? summaryOf(tool, input, cwd), 200);
}

/** A rule for exactly this call, which a person may widen. Undefined if it does not fit in a line. */
export function patternOf(input: unknown, cwd: string): string | undefined {
  const path = pathOf(input);
  const pattern = fieldOf(input, 'command') ?? (path === undefined ? fieldOf(input, 'url') : shownPath(path, cwd));
  return pattern === undefined || pattern.length > MOST_PATTERN ? undefined : pattern;
}

/** Relative to the workspace; undefined if it lies outside. */
function workspacePath(path: string, cwd: string): string | undefined {
  const inside = relative(cwd, resolve(cwd, path));
  return inside === '' || inside === '..' || inside.startsWith('../') ? undefined : inside;
}

function shownPath(path: string, cwd: string): string {
  return workspacePath(path, cwd) ?? path;
}
