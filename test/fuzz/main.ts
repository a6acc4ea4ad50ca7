/**
 * `npm run test:fuzz -- [--inputs 10000000] [--only frames,parts] [--seconds 60] [--seed 1] [--from 2000000] [--jobs 2]`:
 * each parser, with its coverage. `--seconds` is for each of them; with `--from` a long run is done in pieces.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { unlisted } from './coverage.ts';
import { beginCoverage, fuzz } from './engine.ts';
import { notParsers } from './not-parsers.ts';
import { pythonTargets, targets } from './targets.ts';

const LEAST_PERCENT = 90;
/** Coverage slows a process down for good: the rest of the inputs has one of its own. */
const COVERED_INPUTS = 100_000;

const text = { type: 'string' } as const;
const flag = { type: 'boolean', default: false } as const;
const options = { inputs: text, only: text, seconds: text, seed: text, from: text, jobs: text } as const;
const { values } = parseArgs({ options: { ...options, one: text, covered: flag, lists: flag } });
const [seed, from, inputs] = [Number(values.seed ?? 1), Number(values.from ?? 0), Number(values.inputs ?? 1_000_000)];
const seconds = Number(values.seconds ?? Number.POSITIVE_INFINITY);
const known = [...Object.keys(targets), ...pythonTargets];

if (values.lists) await checkLists();
else if (values.one === undefined) await runAll(values.only?.split(',') ?? known, Number(values.jobs ?? 1));
else await runOne(values.one);

async function runAll(names: readonly string[], jobs: number): Promise<void> {
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`There is no parser ${unknown.join(', ')}. Known: ${known.join(', ')}.`);
  const [waiting, failed] = [[...names], [] as string[]];
  const work = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      if (!(await passes(name))) failed.push(name);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  if (failed.length === 0) return;
  console.error(`failed: ${failed.join(', ')}`);
  process.exitCode = 1;
}

async function passes(name: string): Promise<boolean> {
  const until = performance.now() + seconds * 1000;
  const isPython = pythonTargets.includes(name);
  const covered = from === 0 ? Math.min(inputs, isPython ? inputs : COVERED_INPUTS) : from;
  if (from === 0 && !(await run(name, { from: 0, to: covered, until, covered: true }))) return false;
  return covered >= inputs || performance.now() >= until || run(name, { from: covered, to: inputs, until });
}

interface Piece {
  readonly from: number;
  readonly to: number;
  readonly until: number;
  readonly covered?: boolean;
}

/** Each in a process of its own: its coverage begins before its parser is loaded. */
async function run(name: string, { from, to, until, covered = false }: Piece): Promise<boolean> {
  const left = (until - performance.now()) / 1000;
  const args = ['--one', name, '--from', `${from}`, '--inputs', `${to}`, '--seed', `${seed}`];
  if (Number.isFinite(left)) args.push('--seconds', `${left}`);
  if (covered) args.push('--covered');
  const isPython = pythonTargets.includes(name);
  const command = isPython ? (process.env.CELLA_PYTHON ?? 'python3') : process.execPath;
  const program = fileURLToPath(new URL(isPython ? './python/main.py' : './main.ts', import.meta.url));
  const child = spawn(command, [...(isPython ? [] : ['--no-warnings']), program, ...args], { stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  return code === 0;
}

/** Whether each function of a parser's file is counted, or said to be no parser. */
async function checkLists(): Promise<void> {
  const inspector = await beginCoverage();
  const loaded = await Promise.all(Object.values(targets).map((load) => load()));
  const found = await unlisted(
    inspector,
    loaded.flatMap(({ parser }) => parser),
    notParsers,
  );
  const program = fileURLToPath(new URL('./python/main.py', import.meta.url));
  const child = spawn(process.env.CELLA_PYTHON ?? 'python3', [program, '--lists'], { stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  for (const line of found) console.error(line);
  if (found.length === 0 && code === 0) return;
  console.error('Add a function to a list of the target that reaches it, or to not-parsers.ts (targets.py).');
  process.exitCode = 1;
}

async function runOne(one: string): Promise<void> {
  const load = targets[one];
  if (!load) throw new Error(`There is no parser ${one}.`);
  const begun = performance.now();
  const onProgress = (next: number) => {
    const left = ((performance.now() - begun) / 1000) * ((inputs - next) / (next - from));
    console.error(`${one}: ${next} of ${inputs}, ${Math.ceil(left)} s left; to go on from here: --from ${next}`);
  };
  const bounds = { seed, from, to: inputs, seconds, covered: values.covered, onProgress };
  const { name, next, slowestMs, grownBytes, coverage } = await fuzz(load, bounds);
  const shown = coverage.map(
    ({ file, percent, missed }) =>
      `; ${file} ${percent} %${percent < LEAST_PERCENT ? ` (not ${missed.join(', ')})` : ''}`,
  );
  const { user, system } = process.cpuUsage();
  const took = `${Math.round((performance.now() - begun) / 1000)} s (${Math.round((user + system) / 1e6)} s of the processor)`;
  console.log(
    `${name}: inputs ${from} to ${next} in ${took}, slowest ${slowestMs.toFixed(1)} ms, ${grownBytes} bytes grown${shown.join('')}`,
  );
  if (coverage.some(({ percent }) => percent < LEAST_PERCENT)) process.exitCode = 1;
}
