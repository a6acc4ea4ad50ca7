/** What a person sees of a turn: the agent's words on stdout, all that it does in short lines on stderr. */

import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import type { TokenUsage } from '../../protocol/turn.ts';
import { toPlain, toText } from '../texts.ts';
import { adviceTold } from '../wording.ts';
import { headline, toolInWords } from './headline.ts';

/** `whole` begins and ends lines of its own. */
export interface Shown {
  readonly stream: 'out' | 'err';
  readonly text: string;
  readonly style?: 'dim' | 'red' | 'yellow' | 'bold';
  readonly whole: boolean;
}

type Of<T extends AgentLogEvent['type']> = Extract<AgentLogEvent, { type: T }>;

const marks = { pending: '[ ]', in_progress: '[>]', completed: '[x]' } as const;

/** One for each turn: it knows which words are on the screen already. */
export class Rendering {
  /** The last character of what was said of each, if anything was. */
  readonly #messages = new Map<string, string>();
  readonly #inner = new Set<string>();
  /** What the agent says went wrong: where the turn ends with an error, that one says it better. */
  #failure: Shown | undefined;

  take(event: AgentLogEvent): Shown[] {
    const shown = this.#show(event);
    const before = this.#failure;
    if (event.type === 'agent_error') this.#failure = failure(event.error);
    else if (shown.length > 0 || event.type === 'turn_ended') this.#failure = undefined;
    const told = event.type === 'turn_ended' && event.error ? undefined : before;
    return told && this.#failure !== told ? [told, ...shown] : shown;
  }

  #show(event: AgentLogEvent): Shown[] {
    switch (event.type) {
      case 'item_started':
        return this.#started(event);
      case 'item_delta':
        return this.#delta(event);
      case 'item_completed':
        return this.#completed(event);
      case 'plan':
        return event.entries.map(({ text, status }) => note(`  ${marks[status]} ${toPlain(text)}`));
      case 'file_changed':
        return [note(`  ${event.change} ${toPlain(event.path)}`)];
      case 'permission_resolved':
        return resolved(event);
      case 'agent_notice':
        return [note(toPlain(event.text))];
      case 'network_denied':
        return [line(`(no network to ${toPlain(event.host)}:${event.port}: ${toPlain(event.reason)})`, 'yellow')];
      case 'turn_ended':
        return ended(event);
      case 'turn_queued':
        return [note(waiting(event))];
      case 'agent_error':
      case 'turn_started':
      case 'agent_session':
      case 'permission_requested':
      case 'question':
      case 'usage':
      case 'agent_raw':
        return [];
    }
  }

  #started({ item, kind, parent, tool = '', title, input }: Of<'item_started'>): Shown[] {
    if (parent !== undefined) this.#inner.add(item);
    if (kind === 'message') this.#messages.set(item, '');
    if (kind === 'message' || kind === 'reasoning') return [];
    const what = headline({ tool, title, input });
    return [note(`${parent === undefined ? '' : '  '}* ${what}`)];
  }

  /** What a subagent says is for the agent; thoughts are in the log. */
  #delta({ item, text }: Of<'item_delta'>): Shown[] {
    if (!this.#messages.has(item) || this.#inner.has(item) || text === '') return [];
    this.#messages.set(item, text.slice(-1));
    return [{ stream: 'out', text: toText(text), whole: false }];
  }

  #completed({ item, kind, status, text = '', output = '', tool = '', parent }: Of<'item_completed'>): Shown[] {
    if (kind === 'message') {
      if (parent !== undefined || this.#inner.has(item)) return [];
      const last = this.#messages.get(item) ?? '';
      if (last === '') return text === '' ? [] : [{ stream: 'out', text: toText(text), whole: true }];
      return last === '\n' ? [] : [{ stream: 'out', text: '\n', whole: false }];
    }
    if (status === 'completed' || kind === 'reasoning') return [];
    const [first = ''] = output.trim().split('\n');
    const why = first === '' ? '' : `: ${toPlain(first.slice(0, 200))}`;
    const how = status === 'failed' ? 'failed' : `was ${status}`;
    return [line(`  ${toolInWords(tool)} ${how}${why}`, 'yellow')];
  }
}

/** What a prompt waits for, and how to find out more. */
export function waiting({ ahead, running }: Of<'turn_queued'>): string {
  const what = ahead === 1 ? 'one prompt' : `${ahead} prompts`;
  return `Waiting for ${what} before it${running === undefined ? '' : ` (${running} runs)`}.`;
}

function resolved({ outcome, reason, by }: Of<'permission_resolved'>): Shown[] {
  const who =
    by === undefined ? '' : ` by ${by.startsWith('rul_') ? `the rule ${by}` : toPlain(by.replace(/~.*$/, ''))}`;
  const why = reason === undefined ? '' : `: ${toPlain(reason)}`;
  return [note(`  (${outcome.replace('_', ' ')}${who}${why})`)];
}

function ended({ status, usage, error }: Of<'turn_ended'>): Shown[] {
  const told: Shown[] = [];
  if (error) told.push(failure(error));
  else if (status !== 'completed') told.push(line(`The turn was ${status.replace('_', ' ')}.`, 'yellow'));
  if (usage) told.push(note(usageToText(usage)));
  return told;
}

export function usageToText({ input, output, cacheRead, cacheWrite, costUsd, model }: TokenUsage): string {
  const cached = cacheRead + cacheWrite === 0 ? '' : ` (${cacheRead} from the cache, ${cacheWrite} to it)`;
  const cost = costUsd === undefined ? '' : `, $${costUsd.toFixed(4)}`;
  return `${input} tokens in${cached}, ${output} out${cost}${model === undefined ? '' : `, ${toPlain(model)}`}`;
}

function failure(error: { code: string; message: string; advice: string }): Shown {
  const { code, message } = error;
  return line(`${toPlain(message)} (${toPlain(code)})\n${toPlain(adviceTold(error))}`, 'red');
}

const line = (text: string, style: NonNullable<Shown['style']>): Shown => ({ stream: 'err', text, style, whole: true });
const note = (text: string): Shown => line(text, 'dim');
