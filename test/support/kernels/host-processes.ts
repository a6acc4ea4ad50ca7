/** Starts hosts of their own, in processes that can be killed or deprived of a layer of isolation. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { SessionOptions } from '../../../src/index.ts';

const program = fileURLToPath(new URL('host-process.ts', import.meta.url));
const launcher = fileURLToPath(new URL('../processes/without-layer.py', import.meta.url));
const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';

export interface Opened {
  readonly code: string;
  readonly layer?: string;
  readonly message?: string;
  readonly value?: number;
  readonly pid?: number;
}

export interface Plan {
  readonly sessions: readonly SessionOptions[];
  /** Before each of them. */
  readonly pausesMs?: readonly number[];
  readonly code?: string;
}

interface Options {
  /** What the host cannot do; see without-layer.py. */
  readonly without?: string;
  readonly tmpDir?: string;
}

export function startHost(plan: Plan, { without, tmpDir }: Options = {}): ChildProcess {
  const own = [process.execPath, program, JSON.stringify(plan)];
  const argv = without === undefined ? own : [python, launcher, without, ...own];
  const env = { ...process.env, ...(tmpDir === undefined ? {} : { TMPDIR: tmpDir }) };
  const host = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'], env });
  onTestFinished(() => {
    host.kill('SIGKILL');
  });
  return host;
}

/** How each session of the plan opened, once the host has ended. */
export async function openings(plan: Plan, options: Options = {}): Promise<Opened[]> {
  const host = startHost(plan, options);
  const ended = once(host, 'exit');
  const found: Opened[] = [];
  for await (const line of linesOf(host)) if ('open' in line) found.push(line.open as Opened);
  await ended;
  return found;
}

export async function* linesOf(host: ChildProcess): AsyncGenerator<Record<string, unknown>> {
  if (!host.stdout) throw new Error('the host has no stdout');
  for await (const line of createInterface({ input: host.stdout })) yield JSON.parse(line);
}

/** Resolves when the code has printed `word`. */
export async function untilPrinted(host: ChildProcess, word: string): Promise<string> {
  let text = '';
  for await (const line of linesOf(host)) {
    if ('text' in line) text += line.text;
    if (text.includes(word)) return text;
  }
  throw new Error(`the host ended before its code printed ${word}: ${text}`);
}
