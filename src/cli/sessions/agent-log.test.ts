import { describe, expect, it } from 'vitest';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { AgentLog } from './agent-log.ts';

const turn = 'trn_0000000000000001';

describe('the log of a session', () => {
  it('shows the turns of an agent: prompt, words, tools, what was asked and decided', () => {
    const log = new AgentLog();
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
      '  (asks for leave: Bash rm x\\u{1b}[2J)',
      '  (denied by ann: no)',
      '',
    ]);
  });
});
