/** Prints the events of a coding agent as lines of text, live and from the session log. */

import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import type { TokenUsage } from '../../protocol/turn.ts';
import { adviceFromServer } from '../command-errors.ts';
import { cutToWidth } from '../command-output.ts';
import { escapeControls, escapeControlsKeepLines } from '../format.ts';

/** A `whole` piece begins and ends its own lines. */
interface PrintedLine {
  readonly stream: 'out' | 'err';
  readonly text: string;
  readonly style?: 'dim' | 'red' | 'yellow' | 'bold';
  readonly whole: boolean;
}

type EventOf<T extends AgentLogEvent['type']> = Extract<AgentLogEvent, { type: T }>;

const TODO_MARKS = { pending: '[ ]', in_progress: '[>]', completed: '[x]' } as const;

/** One per turn: tracks which text is already on the screen. */
export class LiveTurnPrinter {
  /** The last printed character of each message, if any. */
  readonly #messages = new Map<string, string>();
  readonly #inner = new Set<string>();
  /** The agent's own error text. An error at the end of the turn replaces it. */
  #failure: PrintedLine | undefined;

  take(event: AgentLogEvent): PrintedLine[] {
    const shown = this.#show(event);
    const before = this.#failure;
    if (event.type === 'agent_error') this.#failure = describeFailed(event.error);
    else if (shown.length > 0 || event.type === 'turn_ended') this.#failure = undefined;
    const failed = event.type === 'turn_ended' && event.error ? undefined : before;
    return failed && this.#failure !== failed ? [failed, ...shown] : shown;
  }

  #show(event: AgentLogEvent): PrintedLine[] {
    switch (event.type) {
      case 'item_started':
        return this.#started(event);
      case 'item_delta':
        return this.#delta(event);
      case 'item_completed':
        return this.#completed(event);
      case 'plan':
        return event.entries.map(({ text, status }) => noteLine(`  ${TODO_MARKS[status]} ${escapeControls(text)}`));
      case 'file_changed':
        return [noteLine(`  ${event.change} ${escapeControls(event.path)}`)];
      case 'permission_resolved':
        return describeResolved(event);
      case 'agent_notice':
        return [noteLine(escapeControls(event.text))];
      case 'network_denied':
        return [
          styledLine(
            `(no network to ${escapeControls(event.host)}:${event.port}: ${escapeControls(event.reason)})`,
            'yellow',
          ),
        ];
      case 'turn_ended':
        return describeEnded(event);
      case 'turn_queued':
        return [noteLine(describeQueued(event))];
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

  #started({ item, kind, parent, tool = '', title, input }: EventOf<'item_started'>): PrintedLine[] {
    if (parent !== undefined) this.#inner.add(item);
    if (kind === 'message') this.#messages.set(item, '');
    if (kind === 'message' || kind === 'reasoning') return [];
    const what = summarizeToolCall({ tool, title, input });
    return [noteLine(`${parent === undefined ? '' : '  '}* ${what}`)];
  }

  /** A subagent's text is meant for the agent; its thoughts are in the log. */
  #delta({ item, text }: EventOf<'item_delta'>): PrintedLine[] {
    if (!this.#messages.has(item) || this.#inner.has(item) || text === '') return [];
    this.#messages.set(item, text.slice(-1));
    return [{ stream: 'out', text: escapeControlsKeepLines(text), whole: false }];
  }

  #completed({
    item,
    kind,
    status,
    text = '',
    output = '',
    tool = '',
    parent,
  }: EventOf<'item_completed'>): PrintedLine[] {
    if (kind === 'message') {
      if (parent !== undefined || this.#inner.has(item)) return [];
      const last = this.#messages.get(item) ?? '';
      if (last === '') return text === '' ? [] : [{ stream: 'out', text: escapeControlsKeepLines(text), whole: true }];
      return last === '\n' ? [] : [{ stream: 'out', text: '\n', whole: false }];
    }
    if (status === 'completed' || kind === 'reasoning') return [];
    const [first = ''] = output.trim().split('\n');
    const why = first === '' ? '' : `: ${escapeControls(first.slice(0, 200))}`;
    const how = status === 'failed' ? 'failed' : `was ${status}`;
    return [styledLine(`  ${toolTitle(tool)} ${how}${why}`, 'yellow')];
  }
}

/** What a queued prompt waits for, and how to find out more. */
export function describeQueued({ ahead, running }: EventOf<'turn_queued'>): string {
  const what = ahead === 1 ? 'one prompt' : `${ahead} prompts`;
  return `Waiting for ${what} before it${running === undefined ? '' : ` (${running} runs)`}.`;
}

function describeResolved({ outcome, reason, by }: EventOf<'permission_resolved'>): PrintedLine[] {
  const who =
    by === undefined ? '' : ` by ${by.startsWith('rul_') ? `the rule ${by}` : escapeControls(by.replace(/~.*$/, ''))}`;
  const why = reason === undefined ? '' : `: ${escapeControls(reason)}`;
  return [noteLine(`  (${outcome.replace('_', ' ')}${who}${why})`)];
}

function describeEnded({ status, usage, error }: EventOf<'turn_ended'>): PrintedLine[] {
  const lines: PrintedLine[] = [];
  if (error) lines.push(describeFailed(error));
  else if (status !== 'completed') lines.push(styledLine(`The turn was ${status.replace('_', ' ')}.`, 'yellow'));
  if (usage) lines.push(noteLine(formatUsage(usage)));
  return lines;
}

function formatUsage({ input, output, cacheRead, cacheWrite, costUsd, model }: TokenUsage): string {
  const cached = cacheRead + cacheWrite === 0 ? '' : ` (${cacheRead} from the cache, ${cacheWrite} to it)`;
  const cost = costUsd === undefined ? '' : `, $${costUsd.toFixed(4)}`;
  return `${input} tokens in${cached}, ${output} out${cost}${model === undefined ? '' : `, ${escapeControls(model)}`}`;
}

function describeFailed(error: { code: string; message: string; advice: string }): PrintedLine {
  const { code, message } = error;
  return styledLine(
    `${escapeControls(message)} (${escapeControls(code)})\n${escapeControls(adviceFromServer(error))}`,
    'red',
  );
}

const styledLine = (text: string, style: NonNullable<PrintedLine['style']>): PrintedLine => ({
  stream: 'err',
  text,
  style,
  whole: true,
});
const noteLine = (text: string): PrintedLine => styledLine(text, 'dim');

/** The tool of the session's own MCP server that runs code. */
export const RUN_CODE = 'mcp__cella__run_code';

const MAX_SUMMARY_CHARACTERS = 100;
/** The first of these fields that is present is printed. */
const MAIN_FIELDS = [
  'command',
  'file_path',
  'notebook_path',
  'path',
  'url',
  'query',
  'pattern',
  'description',
  'code',
  'prompt',
];

interface ToolCallSummary {
  readonly tool: string;
  readonly title?: string | undefined;
  readonly input?: unknown;
}

function summarizeToolCall({ tool, title, input }: ToolCallSummary): string {
  // The input says what happens; a title may be the agent's own wording.
  const [first = ''] = (mainArgument(input) || (title ?? '')).trim().split('\n');
  const about = first === tool || first.startsWith(`${tool} `) ? first.slice(tool.length) : first;
  return cutToWidth(escapeControls(`${toolTitle(tool)} ${about.trim()}`.trim()), MAX_SUMMARY_CHARACTERS);
}

/** Hides the name of the MCP server through which the agent reaches Cella's own kernel. */
function toolTitle(tool: string): string {
  return tool === RUN_CODE ? 'run_code' : escapeControls(tool);
}

function mainArgument(input: unknown): string {
  if (typeof input !== 'object' || input === null) return '';
  const fields = new Map(Object.entries(input));
  const value = MAIN_FIELDS.map((name) => fields.get(name)).find((value) => typeof value === 'string');
  return typeof value === 'string' ? value : '';
}

export class LoggedTurnPrinter {
  #rendering = new LiveTurnPrinter();

  take(event: AgentLogEvent): PrintedLine[] {
    switch (event.type) {
      case 'turn_started': {
        this.#rendering = new LiveTurnPrinter();
        const lines = event.prompt.split('\n').map((line) => `${event.agent}> ${escapeControls(line)}`);
        return [whole(lines.join('\n'), 'bold')];
      }
      case 'permission_requested':
        return [
          whole(`  (asks for permission: ${escapeControls(event.tool)} ${escapeControls(event.summary)})`, 'yellow'),
        ];
      case 'question':
        return [whole(`  (asks: ${escapeControls(event.text)})`, 'yellow')];
      default:
        return this.#rendering.take(event);
    }
  }
}

const whole = (text: string, style: NonNullable<PrintedLine['style']>): PrintedLine => ({
  stream: 'out',
  text,
  style,
  whole: true,
});
