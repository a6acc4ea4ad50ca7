import { expect, it } from 'vitest';
import { toServeRequest } from '../cli/commands/serve-request.ts';
import { serveSettings } from '../settings/settings-table.ts';
import { serveOptions } from './serve-options.ts';

const defaults = { agentKey: undefined, python: undefined, autoSh: false, dataDir: '/nowhere' };

it('what a command line says of executors reaches them', () => {
  const times = { agentIdle: 4000, agentStart: 5000, agentStop: 6000 };
  const flags = { maxAgents: 3, ...times, agentTokenHours: 3_600_000, agentTokenUses: 7 };
  const { place: _place, ...request } = toServeRequest(flags, defaults);
  const { agents } = serveOptions({ ...request, version: '0', dataDir: '/nowhere', session: {} });
  const tokens = { tokenMs: 3_600_000, tokenUses: 7 };
  expect(agents?.runners).toEqual({ maxRunners: 3, idleMs: 4000, startMs: 5000, stopMs: 6000, ...tokens });
});

it.each(['agentIdle', 'agentStart', 'agentStop'] as const)('%s is no longer than a day', (name) => {
  expect(serveSettings[name].type.parse('86400')).toBe(86_400_000);
  expect(() => serveSettings[name].type.parse('86401')).toThrow('at most 86400');
});

it('agentTokenHours is told in whole hours', () => {
  const { parse } = serveSettings.agentTokenHours.type;
  expect(parse('2')).toBe(7_200_000);
  for (const wrong of ['0', '1.5', '8761']) expect(() => parse(wrong)).toThrow('whole number of hours');
});
