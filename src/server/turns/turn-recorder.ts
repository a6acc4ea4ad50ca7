/** Makes an agent's events small enough for the log: long texts are truncated there and kept whole in a file. */

import type { AgentEvent, AgentLogEvent } from '../../protocol/agent-events.ts';
import type { OutputFile } from '../../protocol/execution-events.ts';
import type { OutputFiles } from '../events/output-files.ts';

/** How much an event shows of a text that is too large for it. */
const SHOWN_CHARS = 4096;
const MOST_ENTRIES = 200;

export interface RecorderLimits {
  readonly eventBytes: number;
  /** The most that one turn may write to files. */
  readonly fileBytes: number;
}

type TurnStarted = Extract<AgentLogEvent, { type: 'turn_started' }>;

export class TurnRecorder {
  readonly #outputs: Pick<OutputFiles, 'keep'>;
  readonly #bounds: RecorderLimits;
  #kept = 0;

  constructor(outputs: Pick<OutputFiles, 'keep'>, bounds: RecorderLimits) {
    this.#outputs = outputs;
    this.#bounds = bounds;
  }

  /** Splits a long delta into several. */
  async toLogEvents(event: AgentEvent): Promise<AgentEvent[]> {
    const { eventBytes } = this.#bounds;
    const size = JSON.stringify(event).length;
    if (size <= eventBytes) return [event];
    switch (event.type) {
      case 'item_delta':
        return pieces(event.text, Math.floor(eventBytes / 4)).map((text) => ({ ...event, text }));
      case 'item_started':
      case 'item_completed':
      case 'agent_raw':
        return [{ ...(await this.#cut(event)) }];
      case 'plan':
        return [{ ...event, entries: event.entries.slice(0, MOST_ENTRIES).map(truncateText) }];
      case 'agent_notice':
        return [truncateText(event)];
      case 'agent_error': {
        const { code, message, advice } = event.error;
        const error = { code: truncate(code), message: truncate(message), advice: truncate(advice) };
        return [{ ...event, error }];
      }
      case 'agent_session':
        return [{ ...event, tools: event.tools?.slice(0, MOST_ENTRIES).map(truncate) ?? [] }];
      case 'file_changed':
        return [{ ...event, path: truncate(event.path) }];
      case 'usage':
        return [event];
    }
  }

  async turnStarted(event: TurnStarted): Promise<TurnStarted> {
    if (event.prompt.length <= this.#bounds.eventBytes) return event;
    const file = await this.#keep({ prompt: event.prompt });
    return { ...event, prompt: truncate(event.prompt), ...(file ? { file } : {}) };
  }

  async #cut(
    event: Extract<AgentEvent, { type: 'item_started' | 'item_completed' | 'agent_raw' }>,
  ): Promise<AgentEvent> {
    if (event.type === 'agent_raw') {
      const file = await this.#keep({ native: event.native });
      return { ...event, native: truncate(JSON.stringify(event.native)), ...(file ? { file } : {}) };
    }
    const { input } = event;
    const large = JSON.stringify(input)?.length > SHOWN_CHARS;
    const shown = large ? { input: truncate(JSON.stringify(input)) } : {};
    if (event.type === 'item_started') {
      const file = await this.#keep({ input });
      return { ...event, ...shown, ...(file ? { file } : {}) };
    }
    const { text, output } = event;
    const file = await this.#keep({ text, input, output });
    const texts = {
      text: text === undefined ? undefined : truncate(text),
      output: output === undefined ? undefined : truncate(output),
    };
    return { ...event, ...shown, ...texts, ...(file ? { file } : {}) };
  }

  /** Undefined if the turn has used up its file bytes: then only the truncated text is kept. */
  async #keep(content: Record<string, unknown>): Promise<OutputFile | undefined> {
    const text = JSON.stringify(content);
    if (this.#kept + text.length > this.#bounds.fileBytes) return undefined;
    this.#kept += text.length;
    return await this.#outputs.keep('json', text);
  }
}

function truncateText<T extends { readonly text: string }>(one: T): T {
  return { ...one, text: truncate(one.text) };
}

/** Truncates a text without splitting a surrogate pair. */
export function truncate(text: string, most = SHOWN_CHARS): string {
  return text.length <= most ? text : text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '');
}

function pieces(text: string, most: number): string[] {
  const parts: string[] = [];
  for (let rest = text; rest !== ''; ) {
    const part = truncate(rest, most);
    parts.push(part);
    rest = rest.slice(part.length);
  }
  return parts;
}
