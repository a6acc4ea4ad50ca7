/** Events of agents, made small enough for the log: long texts are cut there, and lie in a file as a whole. */

import type { AgentEvent, AgentLogEvent } from '../../protocol/agent-events.ts';
import type { OutputFile } from '../../protocol/execution-events.ts';
import type { OutputFiles } from '../events/output-files.ts';

/** How much of a text that is too large for an event the event shows. */
const SHOWN = 4096;
const MOST_ENTRIES = 200;

export interface Bounds {
  readonly eventBytes: number;
  /** The most that one turn may write to files. */
  readonly fileBytes: number;
}

type TurnStarted = Extract<AgentLogEvent, { type: 'turn_started' }>;

export class BoundedEvents {
  readonly #outputs: Pick<OutputFiles, 'keep'>;
  readonly #bounds: Bounds;
  #kept = 0;

  constructor(outputs: Pick<OutputFiles, 'keep'>, bounds: Bounds) {
    this.#outputs = outputs;
    this.#bounds = bounds;
  }

  /** A delta that is too long becomes several. */
  async take(event: AgentEvent): Promise<AgentEvent[]> {
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
        return [{ ...event, entries: event.entries.slice(0, MOST_ENTRIES).map(shortened) }];
      case 'agent_notice':
        return [shortened(event)];
      case 'agent_error': {
        const { code, message, advice } = event.error;
        const error = { code: short(code), message: short(message), advice: short(advice) };
        return [{ ...event, error }];
      }
      case 'agent_session':
        return [{ ...event, tools: event.tools?.slice(0, MOST_ENTRIES).map(short) ?? [] }];
      case 'file_changed':
        return [{ ...event, path: short(event.path) }];
      case 'usage':
        return [event];
    }
  }

  async started(event: TurnStarted): Promise<TurnStarted> {
    if (event.prompt.length <= this.#bounds.eventBytes) return event;
    const file = await this.#keep({ prompt: event.prompt });
    return { ...event, prompt: short(event.prompt), ...(file ? { file } : {}) };
  }

  async #cut(
    event: Extract<AgentEvent, { type: 'item_started' | 'item_completed' | 'agent_raw' }>,
  ): Promise<AgentEvent> {
    if (event.type === 'agent_raw') {
      const file = await this.#keep({ native: event.native });
      return { ...event, native: short(JSON.stringify(event.native)), ...(file ? { file } : {}) };
    }
    const { input } = event;
    const large = JSON.stringify(input)?.length > SHOWN;
    const shown = large ? { input: short(JSON.stringify(input)) } : {};
    if (event.type === 'item_started') {
      const file = await this.#keep({ input });
      return { ...event, ...shown, ...(file ? { file } : {}) };
    }
    const { text, output } = event;
    const file = await this.#keep({ text, input, output });
    const texts = {
      ...(text === undefined ? {} : { text: short(text) }),
      ...(output === undefined ? {} : { output: short(output) }),
    };
    return { ...event, ...shown, ...texts, ...(file ? { file } : {}) };
  }

  /** Undefined where the turn has written too much already: the beginning is all that stays of it then. */
  async #keep(content: Record<string, unknown>): Promise<OutputFile | undefined> {
    const text = JSON.stringify(content);
    if (this.#kept + text.length > this.#bounds.fileBytes) return undefined;
    this.#kept += text.length;
    return await this.#outputs.keep('json', text);
  }
}

function shortened<T extends { readonly text: string }>(one: T): T {
  return { ...one, text: short(one.text) };
}

/** The beginning of a text, never half of a character. */
export function short(text: string, most = SHOWN): string {
  return text.length <= most ? text : text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '');
}

function pieces(text: string, most: number): string[] {
  const parts: string[] = [];
  for (let rest = text; rest !== ''; ) {
    const part = short(rest, most);
    parts.push(part);
    rest = rest.slice(part.length);
  }
  return parts;
}
