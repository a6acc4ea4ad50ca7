/** `npm run test:fuzz -- [--inputs 10000000] [--only frames] [--seconds 60] [--seed 1]`: each parser, with its coverage. */

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { fuzz } from './engine.ts';
import { targets } from './targets.ts';

const LEAST_PERCENT = 90;
const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { inputs: text, only: text, seconds: text, seed: text, one: text } });
const [seed, inputs] = [Number(values.seed ?? 1), Number(values.inputs ?? 1_000_000)];
const seconds = Number(values.seconds ?? Number.POSITIVE_INFINITY);

if (values.one === undefined) {
  // Each in a process of its own: its coverage begins before its parser is loaded.
  const names = values.only === undefined ? [...Object.keys(targets), 'pid1'] : [values.only];
  const failed = names.filter((name) => {
    const limits = [
      '--inputs',
      `${inputs}`,
      '--seed',
      `${seed}`,
      ...(Number.isFinite(seconds) ? ['--seconds', `${seconds}`] : []),
    ];
    const program = fileURLToPath(new URL(name === 'pid1' ? './pid1.py' : './main.ts', import.meta.url));
    const python = process.env.CELLA_PYTHON ?? 'python3';
    const [command, args] =
      name === 'pid1'
        ? [python, [program, ...limits]]
        : [process.execPath, ['--no-warnings', program, '--one', name, ...limits]];
    return spawnSync(command, args, { stdio: 'inherit' }).status !== 0;
  });
  if (failed.length > 0) {
    console.error(`failed: ${failed.join(', ')}`);
    process.exitCode = 1;
  }
} else {
  const load = targets[values.one];
  if (!load) throw new Error(`There is no parser ${values.one}. Known: ${Object.keys(targets).join(', ')}, pid1.`);
  const { name, inputs: done, slowestMs, grownBytes, coverage } = await fuzz(load, { seed, inputs, seconds });
  const shown = coverage.map(
    ({ file, percent, missed }) =>
      `${file} ${percent} %${percent < LEAST_PERCENT ? ` (not ${missed.join(', ')})` : ''}`,
  );
  console.log(
    `${name}: ${done} inputs, slowest ${slowestMs.toFixed(1)} ms, ${grownBytes} bytes grown; ${shown.join('; ')}`,
  );
  if (coverage.some(({ percent }) => percent < LEAST_PERCENT)) process.exitCode = 1;
}
