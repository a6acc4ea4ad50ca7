/** Every parser that a kernel, a runner or a client can reach, for a few seconds each; `npm run test:fuzz` goes on for longer. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { pythonTargets, targets } from './targets.ts';

const program = fileURLToPath(new URL('./main.ts', import.meta.url));
/** One minute for all of them. */
const SECONDS = 3;

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
