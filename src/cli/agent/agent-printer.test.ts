import { describe, expect, it } from 'vitest';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { LiveTurnPrinter, LoggedTurnPrinter } from './agent-printer.ts';

const turn = 'trn_0000000000000001';
const usage = { input: 1200, output: 34, cacheRead: 500, cacheWrite: 0, costUsd: 0.01234, model: 'm-1' };

/** What is on stdout and on stderr after these. */
function shown(...events: readonly AgentLogEvent[]): { out: string; err: string[] } {
  const rendering = new LiveTurnPrinter();
  const all = events.flatMap((event) => rendering.take(event));
  const out = all.filter(({ stream }) => stream === 'out').map(({ text, whole }) => (whole ? `${text}\n` : text));
  return { out: out.join(''), err: all.filter(({ stream }) => stream === 'err').map(({ text }) => text) };
}

describe('a turn at the terminal', () => {
  it('prints the agent’s text as it arrives, once, and ends its line', () => {
    const { out } = shown(
      { type: 'item_started', turn, item: 'a', kind: 'message' },
      { type: 'item_delta', turn, item: 'a', text: 'Hel' },
      { type: 'item_delta', turn, item: 'a', text: 'lo' },
      { type: 'item_completed', turn, item: 'a', kind: 'message', status: 'completed', text: 'Hello' },
      { type: 'item_completed', turn, item: 'b', kind: 'message', status: 'completed', text: 'No deltas.' },
    );
    expect(out).toBe('Hello\nNo deltas.\n');
  });

  it('says what a waiting prompt waits for', () => {
    const { err } = shown(
      { type: 'turn_queued', turn, ahead: 1 },
      { type: 'turn_queued', turn, ahead: 2, running: turn },
    );
    expect(err).toEqual(['Waiting for one prompt before it.', `Waiting for 2 prompts before it (${turn} runs).`]);
  });

  it('shows code for the kernel without the name of the MCP server', () => {
    const item = { turn, item: 't', kind: 'tool', tool: 'mcp__cella__run_code' } as const;
    const { err } = shown(
      { type: 'item_started', ...item, input: { code: 'x + 1' } },
      { type: 'item_completed', ...item, status: 'denied', output: 'no' },
    );
    expect(err).toEqual(['* run_code x + 1', '  run_code was denied: no']);
  });

  it('shows tools, plans, files and the outcome in short lines', () => {
    const { out, err } = shown(
      { type: 'item_started', turn, item: 't', kind: 'tool', tool: 'Bash', input: { command: 'make\nmake test' } },
      {
        type: 'item_completed',
        turn,
        item: 't',
        kind: 'tool',
        tool: 'Bash',
        status: 'failed',
        output: 'no rule\nmore',
      },
      { type: 'item_started', turn, item: 's', kind: 'subagent', tool: 'Task', input: { description: 'Look around' } },
      { type: 'item_started', turn, item: 'u', kind: 'tool', parent: 's', tool: 'Read', input: { file_path: 'a.py' } },
      {
        type: 'plan',
        turn,
        entries: [
          { text: 'first', status: 'completed' },
          { text: 'then', status: 'in_progress' },
        ],
      },
      { type: 'file_changed', turn, path: 'a.py', change: 'modified' },
      { type: 'network_denied', turn, host: 'evil.example', port: 443, reason: 'not in the list' },
      { type: 'turn_ended', turn, status: 'completed', usage },
    );
    expect(out).toBe('');
    expect(err).toEqual([
      '* Bash make',
      '  Bash failed: no rule',
      '* Task Look around',
      '  * Read a.py',
      '  [x] first',
      '  [>] then',
      '  modified a.py',
      '(no network to evil.example:443: not in the list)',
      '1200 tokens in (500 from the cache, 0 to it), 34 out, $0.0123, m-1',
    ]);
  });

  it('hides texts of subagents, and reasoning', () => {
    const { out } = shown(
      { type: 'item_started', turn, item: 'm', kind: 'message', parent: 's' },
      { type: 'item_delta', turn, item: 'm', text: 'inner' },
      { type: 'item_completed', turn, item: 'm', kind: 'message', parent: 's', status: 'completed', text: 'inner' },
      { type: 'item_started', turn, item: 'r', kind: 'reasoning' },
      { type: 'item_delta', turn, item: 'r', text: 'hmm' },
    );
    expect(out).toBe('');
  });

  it('shows who decided, and why a turn failed', () => {
    const { err } = shown(
      { type: 'permission_resolved', id: 'prm_0000000000000001', turn, outcome: 'denied', by: 'ann~1', reason: 'no' },
      { type: 'permission_resolved', id: 'prm_0000000000000001', turn, outcome: 'allowed', by: 'rul_0000000000000001' },
      { type: 'turn_ended', turn, status: 'cancelled' },
      { type: 'turn_ended', turn, status: 'failed', error: { code: 'X', message: 'It broke.', advice: 'Mend it.' } },
    );
    expect(err).toEqual([
      '  (denied by ann: no)',
      '  (allowed by the rule rul_0000000000000001)',
      'The turn was cancelled.',
      'It broke. (X)\nMend it.',
    ]);
  });

  it('prints the error of a turn once, in its final form', () => {
    const refused = { code: 'PROVIDER_REFUSED', message: 'API Error: 403', advice: 'Set a valid key.' };
    const error = { code: 'BUDGET_EXCEEDED', message: 'Nothing is left.', advice: 'Raise the budget.' };
    const { err } = shown(
      { type: 'agent_error', turn, error: refused },
      { type: 'usage', turn, usage },
      { type: 'turn_ended', turn, status: 'failed', error },
    );
    expect(err).toEqual(['Nothing is left. (BUDGET_EXCEEDED)\nRaise the budget.']);
  });

  it('reports errors in a turn that continues', () => {
    const error = { code: 'PROVIDER_LIMITED', message: 'Slow down.', advice: 'Wait.' };
    const told = 'Slow down. (PROVIDER_LIMITED)\nWait.';
    const failed = { type: 'agent_error', turn, error } as const;
    const file = { type: 'file_changed', turn, path: 'a.py', change: 'modified' } as const;
    expect(shown(failed, failed, file).err).toEqual([told, told, '  modified a.py']);
    expect(shown(failed, { type: 'turn_ended', turn, status: 'completed' }).err).toEqual([told]);
  });

  it('names a tool once, and its input before the agent’s own description', () => {
    const tool = (name: string, title: string, input: object) =>
      shown({ type: 'item_started', turn, item: 't', kind: 'tool', tool: name, title, input }).err;
    expect(tool('Bash', 'Runs a command', { command: 'rm -r x' })).toEqual(['* Bash rm -r x']);
    expect(tool('Todo', 'Todo [1,2]', { list: [1, 2] })).toEqual(['* Todo [1,2]']);
  });

  it('prints no control characters of an agent', () => {
    const { out, err } = shown(
      { type: 'item_started', turn, item: 'a', kind: 'message' },
      { type: 'item_delta', turn, item: 'a', text: 'a\u001b]0;evil\u0007\tb\r\n' },
      { type: 'item_started', turn, item: 't', kind: 'tool', tool: 'B\u001b[2J', input: { command: 'x\u202ey' } },
    );
    expect(out).toBe('a\\u{1b}]0;evil\\u{7}\tb\\r\n');
    expect(err).toEqual(['* B\\u{1b}[2J x\\u{202e}y']);
  });
});

describe('the log of a session', () => {
  it('shows the turns of an agent: prompt, texts, tools, requests and decisions', () => {
    const log = new LoggedTurnPrinter();
    const events: AgentLogEvent[] = [
      { type: 'turn_started', turn, agent: 'claude', prompt: 'Tidy\nup', mode: 'ask', by: 'local' },
      { type: 'item_started', turn, item: 'a', kind: 'message' },
      { type: 'item_delta', turn, item: 'a', text: 'I tidy.' },
      { type: 'item_completed', turn, item: 'a', kind: 'message', status: 'completed', text: 'I tidy.' },
      {
        type: 'item_started',
        turn,
        item: 't',
        kind: 'tool',
        tool: 'Bash',
        input: { command: 'rm x' },
        title: 'Tidies',
      },
      { type: 'permission_requested', id: 'prm_0000000000000001', turn, tool: 'Bash', summary: 'rm x\u001b[2J' },
      { type: 'permission_resolved', id: 'prm_0000000000000001', turn, outcome: 'denied', by: 'ann~1', reason: 'no' },
      { type: 'turn_ended', turn, status: 'completed' },
    ];
    const shown = events.flatMap((event) => log.take(event)).map(({ text, whole }) => (whole ? `${text}\n` : text));
    expect(shown.join('').split('\n')).toEqual([
      'claude> Tidy',
      'claude> up',
      'I tidy.',
      '* Bash rm x',
      '  (asks for permission: Bash rm x\\u{1b}[2J)',
      '  (denied by ann: no)',
      '',
    ]);
  });
});
