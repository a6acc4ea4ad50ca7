/** A few rounds of `npm run test:soak -- kills`: `cella serve` is killed at random points under load, twenty times. */

import { expect, test } from 'vitest';
import { serverKills } from '../../soak/server-kills.ts';
import { Cella } from '../../support/cli/command.ts';
import { RedisServer } from '../../support/servers/redis.ts';

const ROUNDS = 10;

async function kills(flags: readonly string[]) {
  using cella = new Cella();
  const lines: string[] = [];
  const report = await serverKills({
    cella,
    rounds: ROUNDS,
    flags,
    random: Math.random,
    progress: (line) => lines.push(line),
  });
  expect(lines).toHaveLength(ROUNDS);
  return report;
}

test('a killed server restarts with every session, everything acknowledged and sent, and numbers without gaps', {
  timeout: 480_000,
}, async () => {
  await using redis = await RedisServer.start();
  const python = process.env.CELLA_PYTHON;
  const flags = python === undefined ? [] : ['--python', python];
  // One waits while the other works.
  const reports = await Promise.all([kills(flags), kills([...flags, '--redis', redis.url])]);
  for (const { acknowledged } of reports) expect(acknowledged).toBeGreaterThan(0);
  // Three sessions are at work in each: some of the kills have met code that ran.
  expect(reports.reduce((sum, { interrupted }) => sum + interrupted, 0)).toBeGreaterThan(0);
});
