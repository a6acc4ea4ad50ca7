/** Asks the person at the terminal what an agent may do, or what it wants to know. */

import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import type { PermissionDecision } from '../../protocol/api/agent-routes.ts';
import type { LineSource } from '../lines.ts';
import type { Terminal } from '../terminal.ts';
import { toPlain } from '../texts.ts';
import { askedInWords, type PermissionRequest, ruleInWords } from './asked.ts';

export type Request = Extract<AgentLogEvent, { type: 'permission_requested' | 'question' }>;

export interface Desk {
  readonly terminal: Pick<Terminal, 'errLines'>;
  readonly lines: LineSource;
  /** Aborted where somebody else has decided, or the turn is over. */
  readonly signal: AbortSignal;
}

/** `leave`: nobody decides here. `stop`: the turn is to stop. */
export type Answer = PermissionDecision | 'leave' | 'stop';

const REASON = 'the person who was asked did not allow it';

export async function ask(request: Request, desk: Desk): Promise<Answer> {
  return request.type === 'question' ? await answer(request, desk) : await decide(request, desk);
}

async function decide(request: PermissionRequest, desk: Desk): Promise<Answer> {
  const { terminal } = desk;
  const { exactly } = request;
  const { title, text, more } = askedInWords(request);
  await terminal.errLines(title);
  await terminal.errLines(text, 'bold');
  if (more.length > 0) await terminal.errLines(more.join('\n'), 'dim');
  const wider = exactly === undefined ? '' : ', (s) for this session, (a) always';
  for (;;) {
    const line = await read(desk, `Allow it? (y) once${wider}, (n) no: `);
    if (typeof line === 'string' && (line === 'leave' || line === 'stop')) return line;
    const [, word = '', rest = ''] = /^\s*(\S+)\s*([\s\S]*)$/.exec(line.text) ?? [];
    switch (word.toLowerCase()) {
      case 'y':
      case 'yes':
        return { decision: 'allow', scope: 'once' };
      case 'n':
      case 'no':
        return await denial(rest, desk);
      case 's':
      case 'a': {
        if (exactly === undefined) break;
        const scope = word.toLowerCase() === 's' ? 'session' : 'always';
        const pattern = await patternFor(request, scope, exactly, desk);
        if (pattern === 'leave' || pattern === 'stop') return pattern;
        return { decision: 'allow', scope, pattern: pattern.text };
      }
    }
  }
}

/** Enter takes the very same; what the agent proposes is shown, and has to be typed. */
async function patternFor(request: PermissionRequest, scope: 'session' | 'always', exactly: string, desk: Desk) {
  const { about, same } = ruleInWords(request, scope);
  const { pattern: proposed } = request;
  await desk.terminal.errLines(about, 'dim');
  if (proposed !== undefined && proposed !== exactly) {
    await desk.terminal.errLines(`The agent proposes the pattern ${toPlain(proposed)}`, 'dim');
  }
  const line = await read(desk, `Which uses of it? [${same}] `);
  if (typeof line === 'string') return line;
  return { text: line.text.trim() === '' ? exactly : line.text.trim() };
}

async function denial(given: string, desk: Desk): Promise<Answer> {
  if (given.trim() !== '') return { decision: 'deny', reason: given.trim() };
  const line = await read(desk, 'Why not? The agent is told. ');
  if (line === 'stop') return line;
  const reason = line === 'leave' || line.text.trim() === '' ? REASON : line.text.trim();
  return { decision: 'deny', reason };
}

async function answer({ text, options = [] }: Extract<Request, { type: 'question' }>, desk: Desk): Promise<Answer> {
  await desk.terminal.errLines(text.split('\n').map(toPlain).join('\n'), 'bold');
  for (const [index, { label, description }] of options.entries()) {
    const more = description === undefined ? '' : `: ${toPlain(description)}`;
    await desk.terminal.errLines(`  ${index + 1}. ${toPlain(label)}${more}`);
  }
  const line = await read(desk, options.length > 0 ? 'A number, or your own words: ' : 'Your answer: ');
  if (line === 'leave' || line === 'stop') return line;
  const given = line.text.trim();
  if (given === '') return { decision: 'deny', reason: 'the person did not answer' };
  const chosen = /^\d+$/.test(given) ? options[Number(given) - 1] : undefined;
  return { decision: 'allow', scope: 'once', text: chosen?.label ?? given };
}

async function read({ lines, signal }: Desk, prompt: string): Promise<{ readonly text: string } | 'leave' | 'stop'> {
  const line = await lines.read({ prompt, fresh: true, signal });
  if (line.kind === 'line') return line;
  return line.kind === 'interrupt' ? 'stop' : 'leave';
}
