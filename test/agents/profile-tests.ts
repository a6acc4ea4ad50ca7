/** What a person has set up for an agent, by what the model receives of it and what comes of that. */

import { expect, test } from 'vitest';
import type { PermissionRequest } from '../../src/protocol/permission.ts';
import { type AgentWords, allow, type Suite, textsOf } from './suite.ts';

export function profileTests(words: AgentWords, suite: () => Suite): void {
  test('gets model, system prompt, rules, subagents and MCP servers, and uses a tool of a server', async () => {
    const asks: PermissionRequest[] = [];
    const permit = async (ask: PermissionRequest) => {
      asks.push(ask);
      return { allowed: true };
    };
    const outcome = await suite().place.prompt('#mcp', { permit, model: words.model, profiled: true });
    const asked = suite().model.seen.find(({ text }) => text.includes('#mcp'));
    expect(asked?.model).toBe(words.model);
    for (const part of ['a teapot of the suite', 'short and stout', 'Looks around for the suite', 'probe__echo']) {
      expect(asked?.text).toContain(part);
    }
    expect(textsOf(outcome).at(-1)).toContain('echo: ping pong');
    expect(asks.map(({ tool }) => tool)).toEqual([expect.stringContaining('echo')]);
  });

  test('runs the profile’s command by its name, and uses its skill and subagent', async () => {
    const { place, model } = suite();
    const outcome = await place.prompt('/serve for two', { permit: allow, profiled: true });
    expect(outcome.status).toBe('completed');
    const [first, ...later] = model.seen.map(({ text }) => text);
    expect(first).toContain('Serve with great care.\\n#profile for two');
    expect(first).toContain('How the suite brews');
    expect(first).not.toContain('pot is warmed');
    expect(later.filter((text) => text.includes('The pot is warmed first.'))).not.toEqual([]);
    expect(later.filter((text) => text.includes('You look for a kettle.'))).not.toEqual([]);
  });
}
