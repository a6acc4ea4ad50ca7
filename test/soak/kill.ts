/**
 * Counting while processes are killed: kernel, pid 1, template and host, at random moments. After each kill the counter
 * must be a value that was really reached, no older than the last save, and the next result must tell of it.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { numbersOf } from '../support/kernels/state.ts';
import { descendants, processes } from '../support/processes/processes.ts';

export interface Soak {
  readonly rounds: number;
  readonly dataDir: string;
  readonly python?: string | undefined;
  /** 0 to 1; the same numbers make the same rounds, as far as a machine repeats itself. */
  readonly random: () => number;
  readonly progress: (line: string) => void;
}

export const TARGETS = ['kernel', 'pid 1', 'template', 'host'] as const;
/** A death is told within a second. */
const MOST_TRIES = 500;

type Target = (typeof TARGETS)[number];

interface Answer {
  readonly value?: {
    readonly status?: string;
    readonly value?: unknown;
    readonly recovered?: object;
    readonly resumed?: object;
  };
  readonly error?: { readonly code: string; readonly message: string };
  /** The host ended before it answered. */
  readonly gone?: true;
}

/** A host process with one session, driven a line at a time. */
class Host {
  readonly #child: ChildProcess;
  readonly #waiting: ((answer: Answer) => void)[] = [];
  readonly #ended: Promise<Answer>;

  constructor() {
    const program = fileURLToPath(new URL('../support/kernels/state-host.ts', import.meta.url));
    this.#child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.stdin?.on('error', () => {}); // it was killed: `call` tells
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    lines.on('line', (line) => this.#waiting.shift()?.(JSON.parse(line)));
    this.#ended = once(lines, 'close').then(() => ({ gone: true }));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async call(call: string, ...words: unknown[]): Promise<Answer> {
    const answered = this.#next();
    this.#child.stdin?.write(`${JSON.stringify({ call, with: words })}\n`);
    return await answered;
  }

  async ready(): Promise<void> {
    await this.#next();
  }

  #next(): Promise<Answer> {
    const answered = new Promise<Answer>((resolve) => this.#waiting.push(resolve));
    return Promise.race([answered, this.#ended]);
  }

  async end(): Promise<void> {
    const exited =
      this.#child.exitCode !== null || this.#child.signalCode !== null ? undefined : once(this.#child, 'exit');
    this.#child.stdin?.end();
    await exited;
  }

  async killed(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
  }
}

export async function killSoak({ rounds, dataDir, python, random, progress }: Soak): Promise<Record<Target, number>> {
  const killed: Record<Target, number> = { kernel: 0, 'pid 1': 0, template: 0, host: 0 };
  const options = { dataDir, saveAfterMs: 5, ...(python === undefined ? {} : { python }) };
  let host = new Host();
  const open = async () => {
    await host.ready();
    const { error } = await host.call('open', options);
    if (error) throw new Error(`The session did not open again: ${error.code} ${error.message}`);
  };
  await open();
  /** The last value that a save is known to hold, and the last that may have been reached. */
  let [saved, reached] = [0, 0];
  await host.call('run', 'n = 0');
  await host.call('save');
  for (let round = 0; round < rounds; round++) {
    for (let cells = Math.floor(random() * 5); cells > 0; cells--) {
      const { value } = await host.call('run', 'n += 1\nn');
      if (value?.status === 'ok') reached = Number(value.value);
      if (random() < 0.4 && !(await host.call('save')).error) saved = reached;
    }
    const target = TARGETS[Math.floor(random() * TARGETS.length)] as Target;
    const inside = Number((await host.call('run', '__import__("os").getpid()')).value?.value);
    const victim = pidOf(host.pid, target, inside);
    const counting = host.call('run', 'n += 1\nn');
    reached++;
    await pause(random() * 12);
    const struck = kill(victim);
    const last = await counting;
    if (target === 'host') {
      await host.killed();
      host = new Host();
      await open();
    }
    const found = await look(host, struck && last.value?.recovered === undefined);
    const n = Number(found.value?.value);
    const told = found.value?.recovered ?? found.value?.resumed ?? last.value?.recovered;
    const fits = n >= saved && n <= reached;
    if (!fits || (struck && !told)) {
      const facts = { round, target, n, saved, reached, struck, last, found };
      throw new Error(`After a kill the counter is wrong, or nothing tells of it: ${JSON.stringify(facts)}`);
    }
    if (struck) killed[target]++;
    reached = n;
    saved = Math.min(saved, n);
    progress(`${round + 1} of ${rounds}: ${target} killed, the counter is ${n}, saved at ${saved}`);
  }
  await host.end();
  return killed;
}

/** What the counter is, once the death is known: until then cells may still run, and share it. */
async function look(host: Host, untilTold: boolean): Promise<Answer> {
  let answer: Answer = {};
  let told: object | undefined;
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    answer = await host.call('run', 'n');
    told ??= answer.value?.recovered ?? answer.value?.resumed;
    if (answer.value?.status === 'ok' && (told || !untilTold)) break;
    await pause(1);
  }
  return { ...answer, ...(answer.value && told ? { value: { ...answer.value, recovered: told } } : {}) };
}

/** `inside` is the kernel's own number: its snapshots and the copies that it is saved from are no kernels. */
function pidOf(host: number, target: Target, inside: number): number {
  if (target === 'host') return host;
  const all = descendants(host);
  const template = all.find(({ parent, command }) => parent === host && command.includes('cella_kernel template'));
  // The maker of networks is a child of the template as well, and has none of its own.
  const one = all.find(({ pid, parent }) => parent === template?.pid && all.some((other) => other.parent === pid));
  const kernel = all.find(({ pid, parent }) => parent === one?.pid && numbersOf(pid).at(-1) === inside);
  const chosen = { kernel, 'pid 1': one, template }[target];
  if (!chosen) throw new Error(`There is no ${target} to kill below ${host}: ${JSON.stringify(processes().length)}`);
  return chosen.pid;
}

function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    return false; // it had ended by itself
  }
}
