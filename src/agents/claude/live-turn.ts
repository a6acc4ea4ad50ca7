/** Maps the messages of a running turn to events. */

import type { z } from 'zod';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import type { AgentFailure, TokenUsage } from '../../protocol/turn.ts';
import { truncateId } from '../event-sender.ts';
import { BlockEvents, providerFailure, type ToolOutcome, usageOf } from './block-events.ts';
import { Block, SdkMessage, type SdkResult, SYNTHETIC, type ToolResultMeta } from './sdk-messages.ts';

/** Messages without an event. All other unknown messages become raw events. */
const QUIET = new Set([
  'system/status',
  'system/thinking_tokens',
  'system/task_started',
  'system/task_progress',
  'system/task_updated',
  'system/task_notification',
  'system/background_tasks_changed',
  'system/permission_denied',
  'system/session_state_changed',
  'system/commands_changed',
  'system/hook_started',
  'system/hook_progress',
  'system/hook_response',
  'stream_event/content_block_stop',
  'stream_event/message_delta',
  'stream_event/message_stop',
  'tool_progress',
  'command_lifecycle',
]);

const MOST_MISSING = 20;

export class LiveTurn {
  readonly #turn: string;
  readonly #blockEvents: BlockEvents;
  /** The streaming message, and how many blocks of each message are complete. */
  #streaming: string | undefined;
  #index = 0;
  readonly #blocks = new Map<string, number>();
  conversation: string | undefined;
  failure: AgentFailure | undefined;
  usage: TokenUsage | undefined;
  result: SdkResult | undefined;

  constructor(turn: string, cwd: string) {
    this.#turn = turn;
    this.#blockEvents = new BlockEvents(turn, cwd);
  }

  toEvents(message: unknown): AgentEvent[] {
    const parsed = SdkMessage.safeParse(message);
    if (!parsed.success) return QUIET.has(messageName(message)) ? [] : [this.#blockEvents.raw(message)];
    return this.#toEvents(parsed.data);
  }

  /** The events if the program ended without a result. */
  interrupted(): AgentEvent[] {
    return this.result ? [] : this.#blockEvents.interrupted();
  }

  #toEvents(native: SdkMessage): AgentEvent[] {
    switch (native.type) {
      case 'system':
        return this.#system(native);
      case 'stream_event':
        return this.#streamed(native.event);
      case 'assistant':
        return this.#said(native);
      case 'user':
        return this.#answered(native);
      case 'result':
        return this.#ended(native);
    }
  }

  #system(native: Extract<SdkMessage, { type: 'system' }>): AgentEvent[] {
    switch (native.subtype) {
      case 'init': {
        const { session_id: conversation, tools, mcp_servers: servers = [] } = native;
        this.conversation = conversation;
        const about = tools ? { tools: tools.slice(0, 1000) } : {};
        const session = { type: 'agent_session', turn: this.#turn, agent: 'claude', conversation, ...about } as const;
        return [session, ...this.#missing(servers)];
      }
      case 'api_retry': {
        const { attempt, max_retries, retry_delay_ms, error_status } = native;
        const why = retriedFor(error_status);
        const when = (retry_delay_ms / 1000).toFixed(1);
        return this.#blockEvents.notice(
          `The provider ${why}; trying again in ${when} s (${attempt} of ${max_retries}).`,
        );
      }
      case 'informational':
        return this.#blockEvents.notice(native.content);
      case 'notification':
        return this.#blockEvents.notice(native.text);
      case 'compact_boundary':
        return this.#blockEvents.notice('The conversation was shortened to make room.');
    }
  }

  /** A notice for each MCP server that failed; the agent works without its tools. */
  #missing(servers: readonly { readonly name: string; readonly status: string }[]): AgentEvent[] {
    const failed = servers.filter(({ status }) => status === 'failed').slice(0, MOST_MISSING);
    const why = 'An agent can reach only what the network of its session allows.';
    return failed.flatMap(({ name }) =>
      this.#blockEvents.notice(
        `The tools of the MCP server ${JSON.stringify(name)} are missing: no connection. ${why}`,
      ),
    );
  }

  #streamed(event: Extract<SdkMessage, { type: 'stream_event' }>['event']): AgentEvent[] {
    if (event.type === 'message_start') {
      this.#streaming = event.message.id;
      return [];
    }
    this.#index = event.index;
    if (event.type === 'content_block_start' || this.#streaming === undefined) return [];
    const item = itemOf(this.#streaming, event.index);
    const { text, thinking } = event.delta;
    if (text !== undefined) return this.#blockEvents.delta('message', text, { item });
    return thinking === undefined ? [] : this.#blockEvents.delta('reasoning', thinking, { item });
  }

  #said({ message, parent_tool_use_id, aborted, error }: Extract<SdkMessage, { type: 'assistant' }>): AgentEvent[] {
    if (error !== undefined) {
      this.failure = providerFailure(error, textsOf(message.content));
      return this.#blockEvents.failed(this.failure);
    }
    if (message.model === SYNTHETIC) return [];
    const parent = parent_tool_use_id ?? undefined;
    const by = parent === undefined ? this.#blockEvents.answeredBy(message.model, this.conversation) : [];
    const said = message.content.flatMap((block) => {
      const counted = this.#blocks.get(message.id) ?? 0;
      this.#blocks.set(message.id, counted + 1);
      const index = message.id === this.#streaming ? this.#index : counted;
      return this.#blockEvents.blockSaid(block, { item: itemOf(message.id, index), parent, aborted });
    });
    return [...by, ...said];
  }

  #answered(native: Extract<SdkMessage, { type: 'user' }>): AgentEvent[] {
    const { message, parent_tool_use_id, tool_use_result: facts, tool_result_meta: outcomes = [] } = native;
    if (typeof message.content === 'string') return [];
    const parent = parent_tool_use_id ?? undefined;
    return message.content.flatMap((given) => {
      const block = Block.safeParse(given).data;
      if (block?.type !== 'tool_result') return [];
      const outcome = toolOutcome(outcomes.find(({ id }) => id === block.tool_use_id));
      return this.#blockEvents.toolEnded(block, { parent, outcome, facts });
    });
  }

  #ended(result: SdkResult): AgentEvent[] {
    this.result = result;
    this.usage = usageOf(result.model_usage_since_last_result ?? {});
    return this.usage ? this.#blockEvents.usage(this.usage) : [];
  }
}

/** The same id as in the transcript. */
export function itemOf(message: string, index: number): string {
  return truncateId(`${message}:${index}`);
}

export function textsOf(content: readonly unknown[]): string {
  const blocks = content.map((block) => Block.safeParse(block).data);
  return blocks.map((block) => (block?.type === 'text' ? block.text : '')).join('');
}

/** When it is stopped, the program reports open tools as rejected by the user, without a decision. */
function toolOutcome(outcome: z.infer<typeof ToolResultMeta> | undefined): ToolOutcome {
  if (outcome?.non_execution_kind === undefined) return 'ran';
  return outcome.permission_decision === undefined && outcome.non_execution_kind === 'user-rejected'
    ? 'cancelled'
    : 'denied';
}

/** The gateway answers 502 if it cannot reach the provider. */
function retriedFor(status: number | null | undefined): string {
  if (status == null) return 'could not be reached';
  return status === 502 ? 'could not be reached, or failed (502)' : `answered ${status}`;
}

function messageName(message: unknown): string {
  if (typeof message !== 'object' || message === null || !('type' in message)) return '';
  if ('subtype' in message) return `${message.type}/${message.subtype}`;
  const event = 'event' in message ? message.event : undefined;
  const inner = typeof event === 'object' && event !== null && 'type' in event ? `/${event.type}` : '';
  return `${message.type}${inner}`;
}
