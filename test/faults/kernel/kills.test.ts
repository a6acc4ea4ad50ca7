/** A few rounds of the soak that `npm run test:soak` runs for long. */

import { expect, test } from 'vitest';
import { killSoak } from '../../soak/kill.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

/** The same sequence each time, in which each of the four is killed. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

test('kernel, pid 1, template and host can be killed at any moment while the code counts', async () => {
  const lines: string[] = [];
  const killed = await killSoak({
    rounds: 16,
    dataDir: await scratchFolder(),
    python: process.env.CELLA_PYTHON,
    random: sequence(7),
    progress: (line) => lines.push(line),
  });
  expect(lines).toHaveLength(16);
  expect(Object.values(killed).reduce((sum, count) => sum + count, 0)).toBe(16);
}, 120_000);
