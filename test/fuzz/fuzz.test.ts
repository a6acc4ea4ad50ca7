/** Every parser that a kernel, a runner or a client can reach, for a few seconds each; `npm run test:fuzz` goes on for longer. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { fuzz } from './engine.ts';
import { pythonTargets, targets } from './targets.ts';

const program = fileURLToPath(new URL('./main.ts', import.meta.url));
/** One minute for all of them. */
const SECONDS = 1.5;

it.each([...Object.keys(targets), ...pythonTargets])(
  '%s: no crash, no stall, no growth, and nine lines of ten',
  { timeout: 180_000 },
  async (name) => {
    const args = ['--no-warnings', program, '--only', name, '--seconds', `${SECONDS}`, '--inputs', '100000'];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const [out, problems, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    expect(code, `${out}${problems}`).toBe(0);
  },
);

it('each function of a parser is in the list of a target, or listed as not a parser', { timeout: 60_000 }, async () => {
  const child = spawn(process.execPath, ['--no-warnings', program, '--lists'], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [problems, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  expect(code, problems).toBe(0);
});

it('held memory counts as growth, and released memory does not', async () => {
  const bounds = { seed: 1, from: 0, to: 4600, seconds: 60, covered: false, onProgress: () => {} };
  const grownBytes = async (letsGo: boolean) => {
    const kept: Buffer[] = [];
    let taken = 0;
    const take = () => {
      taken += 1;
      // Growth counts from input 2000 on. Together they are less than the limit.
      if (taken > 2000) kept.push(Buffer.alloc(10_000, 1));
      if (letsGo && taken === bounds.to) kept.length = 0;
    };
    const report = await fuzz(async () => ({ name: 'frames', parser: [], take }), bounds);
    // Slow inputs are taken again.
    expect(kept.length > 2000).toBe(!letsGo);
    return report.grownBytes;
  };
  expect(await grownBytes(true)).toBeLessThan(5_000_000);
  expect(await grownBytes(false)).toBeGreaterThan(20_000_000);
});
