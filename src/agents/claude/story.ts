/**
 * Blocks of a conversation → events. The live stream and the transcript both tell their blocks to a story, so that
 * both end in the same events.
 */

import type { AgentEvent, AgentFailure, ItemKind } from '../../protocol/agent-events.ts';
import type { TokenUsage } from '../../protocol/turn.ts';
import { boundedId, boundedInput, boundedText } from '../bounded.ts';
import { changesOf, planOf } from './effects.ts';
import { Block, type ToolResult, type ToolUse } from './native.ts';
import { titleOf } from './summary.ts';

/** Why a tool did not run, or `ran`. */
export type Fate = 'ran' | 'denied' | 'cancelled';

export interface Place {
  /** The subagent that it is part of. */
  readonly parent?: string | undefined;
}

export interface SaidWhere extends Place {
  /** The name that a text has here; a tool has its own. */
  readonly item: string;
  readonly aborted?: boolean | undefined;
}

export interface ResultWhere extends Place {
  readonly fate: Fate;
  /** What the program knows of it, beside what it told the model. */
  readonly facts: unknown;
}

const SUBAGENTS = new Set(['Agent', 'Task']);

export class Story {
  readonly #turn: string;
  readonly #cwd: string;
  readonly #open = new Map<string, ToolUse>();
  readonly #begun = new Set<string>();
  #answered = false;
  /** What has streamed of texts that have not come whole. */
  readonly #streamed = new Map<string, { readonly kind: 'message' | 'reasoning'; text: string } & Place>();

  constructor(turn: string, cwd: string) {
    this.#turn = turn;
    this.#cwd = cwd;
  }

  /** Told once in a turn, when it is known: a model that was asked for may not be the one that answers. */
  answeredBy(model: string | undefined, conversation: string | undefined): AgentEvent[] {
    if (model === undefined || conversation === undefined || this.#answered) return [];
    this.#answered = true;
    const told = boundedId(model);
    return [{ type: 'agent_session', turn: this.#turn, agent: 'claude', conversation, model: told }];
  }

  delta(kind: 'message' | 'reasoning', text: string, { item, parent }: SaidWhere): AgentEvent[] {
    if (text === '') return [];
    const begins = this.#begins(kind, item, parent);
    const before = this.#streamed.get(item)?.text ?? '';
    this.#streamed.set(item, { kind, parent, text: before + text });
    return [...begins, { type: 'item_delta', turn: this.#turn, item, text: text.toWellFormed() }];
  }

  /** A whole block of what the model said. */
  said(given: unknown, where: SaidWhere): AgentEvent[] {
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
    return [{ type: 'item_started', turn: this.#turn, item, kind, ...ofParent(parent) }];
  }

  /** Thoughts that the provider keeps to itself have no text. */
  #text(kind: 'message' | 'reasoning', text: string, { item, parent, aborted }: SaidWhere): AgentEvent[] {
    if (text === '' && !this.#begun.has(item)) return [];
    this.#streamed.delete(item);
    const status = aborted ? 'cancelled' : 'completed';
    return [
      ...this.#begins(kind, item, parent),
      { type: 'item_completed', turn: this.#turn, item, kind, ...ofParent(parent), status, text: text.toWellFormed() },
    ];
  }

  #toolBegins(use: ToolUse, { parent }: Place): AgentEvent[] {
    const item = boundedId(use.id);
    if (this.#open.has(item)) return [];
    this.#open.set(item, use);
    const title = titleOf(use.name, use.input, this.#cwd);
    return [{ type: 'item_started', turn: this.#turn, item, ...ofParent(parent), ...describe(use), title }];
  }

  toolEnded(result: ToolResult, { parent, fate, facts }: ResultWhere): AgentEvent[] {
    const item = boundedId(result.tool_use_id);
    const use = this.#open.get(item);
    if (!use) return [];
    this.#open.delete(item);
    const status = fate === 'ran' ? (result.is_error ? 'failed' : 'completed') : fate;
    // What the program says of a tool that was stopped is the same of all.
    const output = fate === 'cancelled' ? {} : { output: boundedText(textOf(result)) };
    const ended: AgentEvent = {
      type: 'item_completed',
      turn: this.#turn,
      item,
      ...ofParent(parent),
      ...describe(use),
      status,
      ...output,
    };
    if (status !== 'completed') return [ended];
    return [ended, ...planOf(use, this.#turn), ...changesOf(use, facts, { turn: this.#turn, item, cwd: this.#cwd })];
  }

  /** Where nothing more comes: texts that have not come whole end with what has streamed of them. */
  cutOff(): AgentEvent[] {
    return [...this.#streamed].flatMap(([item, { kind, text, parent }]) =>
      this.#text(kind, text, { item, parent, aborted: true }),
    );
  }

  usage(usage: TokenUsage): AgentEvent[] {
    return [{ type: 'usage', turn: this.#turn, usage }];
  }

  notice(text: string): AgentEvent[] {
    return [{ type: 'agent_notice', turn: this.#turn, text: boundedText(text) }];
  }

  failed(error: AgentFailure): AgentEvent[] {
    return [{ type: 'agent_error', turn: this.#turn, error }];
  }

  raw(native: unknown): AgentEvent {
    return { type: 'agent_raw', turn: this.#turn, agent: 'claude', native: boundedInput(native) };
  }
}

function describe({ name, input }: ToolUse): { kind: ItemKind; tool: string; input: unknown } {
  return { kind: SUBAGENTS.has(name) ? 'subagent' : 'tool', tool: boundedId(name), input: boundedInput(input) };
}

function ofParent(parent: string | undefined): { parent?: string } {
  return parent === undefined ? {} : { parent: boundedId(parent) };
}

function textOf({ content = '' }: ToolResult): string {
  if (typeof content === 'string') return content;
  return content.map((part) => part.text ?? `[${part.type}]`).join('\n');
}
