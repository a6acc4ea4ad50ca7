/** Asks the person at the terminal for a coding agent's questions and permission requests. */

import { z } from 'zod';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import type { PermissionDecision } from '../../protocol/permission.ts';
import { escapeControls, escapeControlsKeepLines } from '../format.ts';
import type { LineSource } from '../terminal/line-input.ts';
import type { CliTerminal } from '../terminal/terminal.ts';
import { RUN_CODE } from './agent-printer.ts';

export type PersonRequest = Extract<AgentLogEvent, { type: 'permission_requested' | 'question' }>;

interface PromptContext {
  readonly terminal: Pick<CliTerminal, 'errLines'>;
  readonly lines: LineSource;
  /** Aborts when another client has decided, or when the turn is over. */
  readonly signal: AbortSignal;
}

/** `leave`: make no decision here. `stop`: stop the turn. */
type PersonAnswer = PermissionDecision | 'leave' | 'stop';

const DENIED_REASON = 'the person denied it';

export async function ask(request: PersonRequest, context: PromptContext): Promise<PersonAnswer> {
  return request.type === 'question' ? await answer(request, context) : await decide(request, context);
}

async function decide(request: RequestedPermission, context: PromptContext): Promise<PersonAnswer> {
  const { terminal } = context;
  const { exactly } = request;
  const { title, text, more } = describePermission(request);
  await terminal.errLines(title);
  await terminal.errLines(text, 'bold');
  if (more.length > 0) await terminal.errLines(more.join('\n'), 'dim');
  const wider = exactly === undefined ? '' : ', (s) for this session, (a) always';
  for (;;) {
    const line = await read(context, `Allow it? (y) once${wider}, (n) no: `);
    if (typeof line === 'string' && (line === 'leave' || line === 'stop')) return line;
    const [, word = '', rest = ''] = /^\s*(\S+)\s*([\s\S]*)$/.exec(line.text) ?? [];
    switch (word.toLowerCase()) {
      case 'y':
      case 'yes':
        return { decision: 'allow', scope: 'once' };
      case 'n':
      case 'no':
        return await denial(rest, context);
      case 's':
      case 'a': {
        if (exactly === undefined) break;
        const scope = word.toLowerCase() === 's' ? 'session' : 'always';
        const pattern = await patternFor(request, scope, exactly, context);
        if (pattern === 'leave' || pattern === 'stop') return pattern;
        return { decision: 'allow', scope, pattern: pattern.text };
      }
    }
  }
}

/** Enter accepts exactly this call. The agent's suggestion is shown, but has to be typed. */
async function patternFor(
  request: RequestedPermission,
  scope: 'session' | 'always',
  exactly: string,
  context: PromptContext,
) {
  const { about, same } = describeRule(request, scope);
  const { pattern: proposed } = request;
  await context.terminal.errLines(about, 'dim');
  if (proposed !== undefined && proposed !== exactly) {
    await context.terminal.errLines(`The agent suggests the pattern ${escapeControls(proposed)}`, 'dim');
  }
  const line = await read(context, `Pattern [${same}]: `);
  if (typeof line === 'string') return line;
  return { text: line.text.trim() === '' ? exactly : line.text.trim() };
}

async function denial(given: string, context: PromptContext): Promise<PersonAnswer> {
  if (given.trim() !== '') return { decision: 'deny', reason: given.trim() };
  const line = await read(context, 'Why not? (for the agent) ');
  if (line === 'stop') return line;
  const reason = line === 'leave' || line.text.trim() === '' ? DENIED_REASON : line.text.trim();
  return { decision: 'deny', reason };
}

async function answer(
  { text, options = [] }: Extract<PersonRequest, { type: 'question' }>,
  context: PromptContext,
): Promise<PersonAnswer> {
  await context.terminal.errLines(text.split('\n').map(escapeControls).join('\n'), 'bold');
  for (const [index, { label, description }] of options.entries()) {
    const more = description === undefined ? '' : `: ${escapeControls(description)}`;
    await context.terminal.errLines(`  ${index + 1}. ${escapeControls(label)}${more}`);
  }
  const line = await read(context, options.length > 0 ? 'A number, or your own words: ' : 'Your answer: ');
  if (line === 'leave' || line === 'stop') return line;
  const given = line.text.trim();
  if (given === '') return { decision: 'deny', reason: 'the person did not answer' };
  const chosen = /^\d+$/.test(given) ? options[Number(given) - 1] : undefined;
  return { decision: 'allow', scope: 'once', text: chosen?.label ?? given };
}

async function read(
  { lines, signal }: PromptContext,
  prompt: string,
): Promise<{ readonly text: string } | 'leave' | 'stop'> {
  const line = await lines.read({ prompt, ignoreTypeahead: true, signal });
  if (line.kind === 'line') return line;
  return line.kind === 'interrupt' ? 'stop' : 'leave';
}

type RequestedPermission = Extract<AgentLogEvent, { type: 'permission_requested' }>;

const CodeInput = z.looseObject({ code: z.string() });

/** The request, its details, and other fields of the input. */
interface PermissionText {
  readonly title: string;
  readonly text: string;
  readonly more: readonly string[];
}

function describePermission(request: RequestedPermission): PermissionText {
  const { tool, summary, exactly } = request;
  const title =
    tool === RUN_CODE
      ? 'The agent wants to run this code in the session’s kernel:'
      : `The agent wants to use ${escapeControls(tool)}:`;
  const text = indented(summary.trimEnd(), '  ');
  if (isAllOfInput(request)) return { title, text, more: fieldsBeside(request) };
  const more = exactly === undefined || summary.endsWith(exactly) ? [] : [`  ${escapeControls(exactly)}`];
  return { title, text, more };
}

interface RuleText {
  /** What the rule would apply to, and what Enter and `**` mean. */
  readonly about: string;
  /** What Enter stands for. */
  readonly same: string;
}

function describeRule(request: RequestedPermission, scope: 'session' | 'always'): RuleText {
  const { tool, exactly = '' } = request;
  const where = scope === 'session' ? 'in this session, whoever prompts' : 'in every session where you prompt';
  const said = (same: string, any: string) => `The rule applies ${where}. Enter allows ${same}; ${any}.`;
  const every = `every use of ${escapeControls(tool)}`;
  if (!isAllOfInput(request)) {
    const wider = `a pattern with * allows more; ** allows ${every}`;
    return { about: said('exactly this call again', wider), same: escapeControls(exactly) };
  }
  const same = tool === RUN_CODE ? 'exactly this code' : 'exactly this input';
  const any = tool === RUN_CODE ? 'any code' : every;
  return { about: said(`${same} again and nothing else`, `** allows ${any}`), same };
}

/** The pattern on one line. A pattern for one piece of code shows only the code, not how it is compared. */
export function describePattern({ tool, pattern }: { readonly tool: string; readonly pattern: string }): string {
  if (pattern === '**') return '** (every use)';
  if (tool !== RUN_CODE || /(?<!\\)(\\\\)*[*?]/.test(pattern)) return escapeControls(pattern);
  try {
    const { code, ...more } = CodeInput.parse(JSON.parse(withoutEscapes(pattern)));
    const beside = Object.entries(more).map(([name, value]) => `, ${name} ${JSON.stringify(value)}`);
    return escapeControls(`the code ${JSON.stringify(code)}${beside.join('')}`);
  } catch {
    return escapeControls(pattern); // a hand-typed pattern that matches no call
  }
}

/** Whether the rule would match the tool's whole input as JSON, which is not readable for a person. */
function isAllOfInput({ tool, input, exactly }: RequestedPermission): boolean {
  if (typeof input !== 'object' || input === null) return false;
  if (exactly === undefined) return tool.startsWith('mcp__');
  return withoutEscapes(exactly) === JSON.stringify(input);
}

function withoutEscapes(pattern: string): string {
  return pattern.replaceAll(/\\([\\*?])/g, '$1');
}

/** All other fields of the input: a person must see everything that they allow. */
function fieldsBeside({ input, summary }: RequestedPermission): string[] {
  return Object.entries(input ?? {}).flatMap(([name, value]) => {
    if (value === summary) return [];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return [`  ${escapeControls(name)}: ${indented(text, '    ').trimStart()}`];
  });
}

function indented(text: string, indent: string): string {
  return text
    .split('\n')
    .map((line) => `${indent}${escapeControlsKeepLines(line)}`)
    .join('\n');
}
