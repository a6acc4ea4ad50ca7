/** Maps a transcript to the events of its live stream, with the same turn ids. */

import type { AgentEvent, AgentLogEvent } from '../../protocol/agent-events.ts';
import type { AgentFailure, TurnStatus } from '../../protocol/turn.ts';
import { BlockEvents, fieldOf, providerFailure, type ToolOutcome, usageOf, usageSince } from './block-events.ts';
import { itemOf, textsOf } from './live-turn.ts';
import {
  type AssistantLine,
  Block,
  type ClaudeLine,
  type ClaudeModelUsage,
  parseLines,
  SYNTHETIC,
  type ToolUse,
  type UserLine,
} from './sdk-messages.ts';
import { fromNativePrompt, modeOf } from './sdk-options.ts';

/** How deep subagents start others, at most: the program's own start none. */
const MOST_NESTED = 20;
const INTERRUPTED = '[Request interrupted by user';

export function eventsOf(transcript: string): AgentLogEvent[] {
  const lines = parseLines(transcript);
  const subagents = subagentsIn(lines);
  const events: AgentLogEvent[] = [];
  let spent: ClaudeModelUsage = {};
  let turn: PastTurn | undefined;
  // A line may have more blocks than a call may have arguments, so no `push(...more)`.
  const add = (more: readonly AgentLogEvent[]) => {
    for (const event of more) events.push(event);
  };
  for (const line of lines) {
    if (line.agentId !== undefined) continue;
    if (line.type === 'user' && isPrompt(line)) {
      if (turn) add(turn.end());
      turn = new PastTurn(line, subagents);
      add(turn.begin(line));
    } else if (line.type === 'cost-state') {
      if (turn) turn.used = usageSince(spent, line.modelUsage);
      spent = line.modelUsage;
    } else if (turn) {
      add(turn.toEvents(line));
    }
  }
  return turn ? [...events, ...turn.end()] : events;
}

class PastTurn {
  readonly #id: string;
  readonly #blockEvents: BlockEvents;
  readonly #subagents: Subagents;
  readonly #blocks = new Map<string, number>();
  readonly #conversation: string | undefined;
  #failure: AgentFailure | undefined;
  #status: TurnStatus = 'interrupted';
  #nested = 0;
  used: ClaudeModelUsage = {};

  constructor({ uuid = '', cwd = '/', sessionId }: UserLine, subagents: Subagents) {
    this.#conversation = sessionId;
    this.#id = turnOfUuid(uuid);
    this.#blockEvents = new BlockEvents(this.#id, cwd);
    this.#subagents = subagents;
  }

  begin({ message, permissionMode }: UserLine): AgentLogEvent[] {
    const text = typeof message.content === 'string' ? message.content : textsOf(message.content);
    const prompt = fromNativePrompt(text);
    const mode = modeOf(permissionMode);
    const started: AgentLogEvent = { type: 'turn_started', turn: this.#id, agent: 'claude', prompt, mode };
    const conversation = this.#conversation;
    if (conversation === undefined) return [started];
    return [started, { type: 'agent_session', turn: this.#id, agent: 'claude', conversation }];
  }

  toEvents(line: ClaudeLine, parent?: string): AgentEvent[] {
    switch (line.type) {
      case 'assistant':
        return line.isMeta ? [] : this.#said(line, parent);
      case 'user':
        return this.#answered(line, parent);
      case 'system':
        if (line.subtype === 'compact_boundary')
          return this.#blockEvents.notice('The conversation was shortened to make room.');
        return this.#blockEvents.notice(line.content ?? '');
      case 'cost-state':
        return [];
    }
  }

  end(): AgentLogEvent[] {
    const usage = usageOf(this.used);
    const status = this.#failure ? 'failed' : this.#status;
    const more = { ...(usage ? { usage } : {}), ...(this.#failure ? { error: this.#failure } : {}) };
    return [...(usage ? this.#blockEvents.usage(usage) : []), { type: 'turn_ended', turn: this.#id, status, ...more }];
  }

  #said({ message, error, apiBlockIndex, isAbortedMidStream: aborted }: AssistantLine, parent?: string): AgentEvent[] {
    if (error !== undefined) {
      this.#failure = providerFailure(error, textsOf(message.content));
      return this.#blockEvents.failed(this.#failure);
    }
    if (message.model === SYNTHETIC) return [];
    if (parent === undefined) this.#status = isFinalStop(message.stop_reason) ? 'completed' : 'interrupted';
    const by = parent === undefined ? this.#blockEvents.answeredBy(message.model, this.#conversation) : [];
    const said = message.content.flatMap((given) => {
      const counted = this.#blocks.get(message.id) ?? 0;
      this.#blocks.set(message.id, counted + 1);
      // The live stream has block indexes only for the main agent.
      const index = parent === undefined ? (apiBlockIndex ?? counted) : counted;
      const said = this.#blockEvents.blockSaid(given, { item: itemOf(message.id, index), parent, aborted });
      const block = Block.safeParse(given).data;
      return block?.type === 'tool_use' ? [...said, ...this.#within(block)] : said;
    });
    return [...by, ...said];
  }

  /** A subagent has its own transcript. */
  #within({ id }: ToolUse): AgentEvent[] {
    if (this.#nested >= MOST_NESTED) return [];
    this.#nested++;
    const events = this.#subagents.take(id).flatMap((line) => this.toEvents(line, id));
    this.#nested--;
    return events;
  }

  #answered(line: UserLine, parent: string | undefined): AgentEvent[] {
    const { content } = line.message;
    if (typeof content === 'string') return [];
    if (parent === undefined && textsOf(content).startsWith(INTERRUPTED)) this.#status = 'cancelled';
    return content.flatMap((given) => {
      const block = Block.safeParse(given).data;
      if (block?.type !== 'tool_result') return [];
      return this.#blockEvents.toolEnded(block, { parent, outcome: toolOutcome(line), facts: line.toolUseResult });
    });
  }
}

/** The model has finished. */
function isFinalStop(reason: string | null | undefined): boolean {
  return reason != null && reason !== 'tool_use';
}

function isPrompt({ message: { content }, isMeta }: UserLine): boolean {
  if (isMeta) return false;
  if (typeof content === 'string') return true;
  const kinds = content.map((block) => Block.safeParse(block).data?.type);
  return kinds.includes('text') && !kinds.includes('tool_result') && !textsOf(content).startsWith(INTERRUPTED);
}

function toolOutcome({ toolDenialKind, permissionDecision }: UserLine): ToolOutcome {
  if (toolDenialKind === undefined) return 'ran';
  return permissionDecision === undefined && toolDenialKind === 'user-rejected' ? 'cancelled' : 'denied';
}

interface Subagents {
  /** Its lines, only once, so that a transcript that refers to itself does not loop. */
  take(call: string): readonly ClaudeLine[];
}

function subagentsIn(lines: readonly ClaudeLine[]): Subagents {
  const byAgent = Map.groupBy(
    lines.filter(({ agentId }) => agentId !== undefined),
    ({ agentId }) => agentId ?? '',
  );
  const byCall = new Map(lines.flatMap(answeredCalls));
  const byPrompt = new Map([...byAgent].map(([agent, own]) => [promptOf(own), agent]));
  const prompts = new Map(lines.flatMap(callsWithPrompts));
  return {
    take(call) {
      // A stopped subagent has no result that names it, so its prompt is used.
      const agent = byCall.get(call) ?? byPrompt.get(prompts.get(call));
      const own = agent === undefined ? undefined : byAgent.get(agent);
      if (agent !== undefined) byAgent.delete(agent);
      return own ?? [];
    },
  };
}

function answeredCalls(line: ClaudeLine): [call: string, agent: string][] {
  if (line.type !== 'user' || typeof line.message.content === 'string') return [];
  const agent = fieldOf(line.toolUseResult, 'agentId');
  if (agent === undefined) return [];
  return line.message.content.flatMap((given) => {
    const block = Block.safeParse(given).data;
    return block?.type === 'tool_result' ? [[block.tool_use_id, agent] as [string, string]] : [];
  });
}

function callsWithPrompts(line: ClaudeLine): [call: string, prompt: string][] {
  if (line.type !== 'assistant') return [];
  return line.message.content.flatMap((given) => {
    const block = Block.safeParse(given).data;
    const prompt = block?.type === 'tool_use' ? fieldOf(block.input, 'prompt') : undefined;
    return block?.type === 'tool_use' && prompt !== undefined ? [[block.id, prompt] as [string, string]] : [];
  });
}

function promptOf(own: readonly ClaudeLine[]): string | undefined {
  const [first] = own;
  if (first?.type !== 'user') return undefined;
  const { content } = first.message;
  return typeof content === 'string' ? content : textsOf(content);
}

const LETTERS = 36n ** 16n;

/** A version 8 UUID has 122 free bits; an id needs 83. */
export function uuidOfTurn(turn: string): string {
  const value = [...turn.slice('trn_'.length)].reduce(
    (sum, letter) => sum * 36n + BigInt(Number.parseInt(letter, 36)),
    0n,
  );
  const low = hex(value & ((1n << 62n) - 1n), 16);
  const middle = hex((value >> 62n) & 0xfffn, 3);
  const high = hex(value >> 74n, 12);
  const variant = hex(BigInt(`0x${low[0]}`) | 8n, 1);
  return `${high.slice(0, 8)}-${high.slice(8)}-8${middle}-${variant}${low.slice(1, 4)}-${low.slice(4)}`;
}

/** Stable also for prompts that did not come from Cella. */
export function turnOfUuid(uuid: string): string {
  const digits = uuid
    .replace(/[^0-9a-f]/gi, '')
    .padEnd(32, '0')
    .slice(0, 32);
  const bits = (from: number, to: number) => BigInt(`0x${digits.slice(from, to)}`);
  const value = (bits(0, 12) << 74n) | (bits(13, 16) << 62n) | (bits(16, 32) & ((1n << 62n) - 1n));
  return `trn_${(value % LETTERS).toString(36).padStart(16, '0')}`;
}

function hex(value: bigint, length: number): string {
  return value.toString(16).padStart(length, '0');
}
