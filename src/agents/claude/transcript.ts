/** A transcript → the events that the live stream told. */

import type { AgentEvent, AgentFailure, AgentLogEvent } from '../../protocol/agent-events.ts';
import type { TurnStatus } from '../../protocol/turn.ts';
import { providerFailure } from './failure.ts';
import { itemOf, textsOf } from './live.ts';
import { modeOf } from './modes.ts';
import { Block, type ModelUsage, SYNTHETIC, type ToolUse } from './native.ts';
import { fromNativePrompt } from './profile-folder.ts';
import { type Fate, Story } from './story.ts';
import { type Subagents, subagentsIn } from './subagents.ts';
import { type AssistantLine, type Line, linesOf, type UserLine } from './transcript-lines.ts';
import { turnOfUuid } from './turn-id.ts';
import { since, usageOf } from './usage.ts';

const INTERRUPTED = '[Request interrupted by user';

export function eventsOf(transcript: string): AgentLogEvent[] {
  const lines = linesOf(transcript);
  const subagents = subagentsIn(lines);
  const events: AgentLogEvent[] = [];
  let spent: ModelUsage = {};
  let turn: PastTurn | undefined;
  for (const line of lines) {
    if (line.agentId !== undefined) continue;
    if (line.type === 'user' && isPrompt(line)) {
      if (turn) events.push(...turn.end());
      turn = new PastTurn(line, subagents);
      events.push(...turn.begin(line));
    } else if (line.type === 'cost-state') {
      if (turn) turn.used = since(spent, line.modelUsage);
      spent = line.modelUsage;
    } else if (turn) {
      events.push(...turn.tell(line));
    }
  }
  return turn ? [...events, ...turn.end()] : events;
}

class PastTurn {
  readonly #id: string;
  readonly #story: Story;
  readonly #subagents: Subagents;
  readonly #blocks = new Map<string, number>();
  readonly #conversation: string | undefined;
  #failure: AgentFailure | undefined;
  #status: TurnStatus = 'interrupted';
  used: ModelUsage = {};

  constructor({ uuid = '', cwd = '/', sessionId }: UserLine, subagents: Subagents) {
    this.#conversation = sessionId;
    this.#id = turnOfUuid(uuid);
    this.#story = new Story(this.#id, cwd);
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

  tell(line: Line, parent?: string): AgentEvent[] {
    switch (line.type) {
      case 'assistant':
        return line.isMeta ? [] : this.#said(line, parent);
      case 'user':
        return this.#answered(line, parent);
      case 'system':
        if (line.subtype === 'compact_boundary')
          return this.#story.notice('The conversation was shortened to make room.');
        return this.#story.notice(line.content ?? '');
      case 'cost-state':
        return [];
    }
  }

  end(): AgentLogEvent[] {
    const usage = usageOf(this.used);
    const status = this.#failure ? 'failed' : this.#status;
    const more = { ...(usage ? { usage } : {}), ...(this.#failure ? { error: this.#failure } : {}) };
    return [...(usage ? this.#story.usage(usage) : []), { type: 'turn_ended', turn: this.#id, status, ...more }];
  }

  #said({ message, error, apiBlockIndex, isAbortedMidStream: aborted }: AssistantLine, parent?: string): AgentEvent[] {
    if (error !== undefined) {
      this.#failure = providerFailure(error, textsOf(message.content));
      return this.#story.failed(this.#failure);
    }
    if (message.model === SYNTHETIC) return [];
    if (parent === undefined) this.#status = isLast(message.stop_reason) ? 'completed' : 'interrupted';
    const by = parent === undefined ? this.#story.answeredBy(message.model, this.#conversation) : [];
    const said = message.content.flatMap((given) => {
      const counted = this.#blocks.get(message.id) ?? 0;
      this.#blocks.set(message.id, counted + 1);
      // The live stream tells places only of the agent's own words.
      const index = parent === undefined ? (apiBlockIndex ?? counted) : counted;
      const said = this.#story.said(given, { item: itemOf(message.id, index), parent, aborted });
      const block = Block.safeParse(given).data;
      return block?.type === 'tool_use' ? [...said, ...this.#within(block)] : said;
    });
    return [...by, ...said];
  }

  /** What a subagent said and did lies in a transcript of its own. */
  #within({ id }: ToolUse): AgentEvent[] {
    return this.#subagents.take(id).flatMap((line) => this.tell(line, id));
  }

  #answered(line: UserLine, parent: string | undefined): AgentEvent[] {
    const { content } = line.message;
    if (typeof content === 'string') return [];
    if (parent === undefined && textsOf(content).startsWith(INTERRUPTED)) this.#status = 'cancelled';
    return content.flatMap((given) => {
      const block = Block.safeParse(given).data;
      if (block?.type !== 'tool_result') return [];
      return this.#story.toolEnded(block, { parent, fate: fateOf(line), facts: line.toolUseResult });
    });
  }
}

/** The model had nothing more to do. */
function isLast(reason: string | null | undefined): boolean {
  return reason != null && reason !== 'tool_use';
}

function isPrompt({ message: { content }, isMeta }: UserLine): boolean {
  if (isMeta) return false;
  if (typeof content === 'string') return true;
  const kinds = content.map((block) => Block.safeParse(block).data?.type);
  return kinds.includes('text') && !kinds.includes('tool_result') && !textsOf(content).startsWith(INTERRUPTED);
}

function fateOf({ toolDenialKind, permissionDecision }: UserLine): Fate {
  if (toolDenialKind === undefined) return 'ran';
  return permissionDecision === undefined && toolDenialKind === 'user-rejected' ? 'cancelled' : 'denied';
}
