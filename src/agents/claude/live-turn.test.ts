import { expect, test } from 'vitest';
import { LiveTurn } from './live-turn.ts';

const retry = { type: 'system', subtype: 'api_retry', attempt: 1, max_retries: 10, retry_delay_ms: 600 };

test.each([
  [502, 'The provider could not be reached, or failed (502); trying again in 0.6 s (1 of 10).'],
  [529, 'The provider answered 529; trying again in 0.6 s (1 of 10).'],
  [null, 'The provider could not be reached; trying again in 0.6 s (1 of 10).'],
])('a call that failed with %s and is tried again is told as what it was', (error_status, text) => {
  const told = new LiveTurn('trn_0000000000000001', '/agent/workspace').toEvents({ ...retry, error_status });
  expect(told).toMatchObject([{ type: 'agent_notice', text }]);
});

test('an unreachable MCP server is reported, and the agent continues without it', () => {
  const servers = [
    { name: 'cella', status: 'connected' },
    { name: 'issues', status: 'failed' },
  ];
  const init = { type: 'system', subtype: 'init', session_id: 'one', mcp_servers: servers };
  expect(new LiveTurn('trn_0000000000000001', '/agent/workspace').toEvents(init)).toMatchObject([
    { type: 'agent_session' },
    { type: 'agent_notice', text: expect.stringContaining('The tools of the MCP server "issues" are missing') },
  ]);
});
