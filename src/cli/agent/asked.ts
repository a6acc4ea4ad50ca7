/** What an agent asks leave for, as a person reads it; and in words what a rule would allow that is made of it. */

import { z } from 'zod';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { toPlain, toText } from '../texts.ts';
import { RUN_CODE } from './headline.ts';

export type PermissionRequest = Extract<AgentLogEvent, { type: 'permission_requested' }>;

const CodeInput = z.looseObject({ code: z.string() });

/** What it wants, what that is, and what else belongs to it. */
export interface Asked {
  readonly title: string;
  readonly text: string;
  readonly more: readonly string[];
}

export function askedInWords(request: PermissionRequest): Asked {
  const { tool, summary, exactly } = request;
  const title =
    tool === RUN_CODE
      ? 'The agent wants to run this code in the session’s kernel:'
      : `The agent wants to use ${toPlain(tool)}:`;
  const text = indented(summary.trimEnd(), '  ');
  if (isAllOfInput(request)) return { title, text, more: fieldsBeside(request) };
  const more = exactly === undefined || summary.endsWith(exactly) ? [] : [`  ${toPlain(exactly)}`];
  return { title, text, more };
}

export interface RuleWords {
  /** Where it would hold, and what Enter and `**` stand for. */
  readonly about: string;
  /** What Enter stands for. */
  readonly same: string;
}

export function ruleInWords(request: PermissionRequest, scope: 'session' | 'always'): RuleWords {
  const { tool, exactly = '' } = request;
  const where = scope === 'session' ? 'in this session, whoever prompts' : 'in every session where you prompt';
  const said = (same: string, any: string) => `It holds ${where}. Enter allows ${same}, ${any}.`;
  const every = `every use of ${toPlain(tool)}`;
  if (!isAllOfInput(request)) {
    const wider = `a pattern with * allows more, and ** ${every}`;
    return { about: said('exactly this again', wider), same: toPlain(exactly) };
  }
  const same = tool === RUN_CODE ? 'this very code' : 'the very same input';
  const any = tool === RUN_CODE ? 'any code' : every;
  return { about: said(`${same} again and no other`, `** ${any}`), same };
}

/** On one line. What is for one piece of code shows that, and nothing of how it is compared. */
export function patternInWords({ tool, pattern }: { readonly tool: string; readonly pattern: string }): string {
  if (pattern === '**') return '** (every use)';
  if (tool !== RUN_CODE || /(?<!\\)(\\\\)*[*?]/.test(pattern)) return toPlain(pattern);
  try {
    const { code, ...more } = CodeInput.parse(JSON.parse(withoutEscapes(pattern)));
    const beside = Object.entries(more).map(([name, value]) => `, ${name} ${JSON.stringify(value)}`);
    return toPlain(`the code ${JSON.stringify(code)}${beside.join('')}`);
  } catch {
    return toPlain(pattern); // somebody has typed it, and it fits nothing
  }
}

/** A rule about it is compared with all that the tool is given, as JSON: nothing that a person would want to read. */
function isAllOfInput({ tool, input, exactly }: PermissionRequest): boolean {
  if (typeof input !== 'object' || input === null) return false;
  if (exactly === undefined) return tool.startsWith('mcp__');
  return withoutEscapes(exactly) === JSON.stringify(input);
}

function withoutEscapes(pattern: string): string {
  return pattern.replaceAll(/\\([\\*?])/g, '$1');
}

/** All that it is given, but for what stands there already: nobody is to allow what they do not see. */
function fieldsBeside({ input, summary }: PermissionRequest): string[] {
  return Object.entries(input ?? {}).flatMap(([name, value]) => {
    if (value === summary) return [];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return [`  ${toPlain(name)}: ${indented(text, '    ').trimStart()}`];
  });
}

function indented(text: string, indent: string): string {
  return text
    .split('\n')
    .map((line) => `${indent}${toText(line)}`)
    .join('\n');
}
