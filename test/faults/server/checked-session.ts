/** What the suites of `npm run test:faults` share: a session of a server that knows what it was told, and a used data folder. */

import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { checkEndings, readLog } from '../../soak/log.ts';
import type { Cella } from '../../support/cli/command.ts';
import { descendants } from '../../support/processes/processes.ts';
import { Refused, Served } from '../../support/servers/serve-process.ts';

const python = process.env.CELLA_PYTHON;
export const pythonFlags: readonly string[] = python === undefined ? [] : ['--python', python];

/** For `--import`: from SIGUSR2 on the event loop of the server runs nothing else. */
export const standsStillOnSignal = 'data:text/javascript,process.on("SIGUSR2",()=>{for(;;);})';

/** Makes the event loop of a server with `standsStillOnSignal` stand still, and waits until it does. */
export async function standStill(served: Served): Promise<void> {
  served.started.child.kill('SIGUSR2');
  const answers = () =>
    fetch(new URL('/health', served.url), { signal: AbortSignal.timeout(1000) }).then(
      () => true,
      () => false,
    );
  await expect.poll(answers, { timeout: 20_000 }).toBe(false);
}

/** The code of the error, or `ok`. */
export async function codeOf(asked: Promise<unknown>): Promise<string> {
  return await asked.then(
    () => 'ok',
    (error: unknown) => {
      if (error instanceof Refused) return error.code;
      throw error;
    },
  );
}

export async function newSession(served: Served, agentKey = 'kept'): Promise<string> {
  return (await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey } })).id;
}

export const run = (served: Served, id: string, code: string) =>
  served.ask<{ value: unknown }>(`POST /v1/sessions/${id}/execute`, { body: { code } });

/** Leaves a data folder that a server has used, with one session in it. */
export async function used(cella: Cella): Promise<string> {
  await using served = await Served.start(cella, pythonFlags);
  const id = await newSession(served);
  await run(served, id, 'kept = 1');
  return id;
}

export const databaseOf = (cella: Cella) => join(cella.dataDir, 'cella.db');

/** Ends the server as an operator does. */
export async function endInOrder(served: Served): Promise<void> {
  served.started.child.kill('SIGTERM');
  expect(await served.started.ended, served.started.err).toBe(0);
}

/** The same for one that may be unable to save: then it says what, and has no stack for anybody. */
export async function endAsItCan(served: Served): Promise<void> {
  served.started.child.kill('SIGTERM');
  const code = await served.started.ended;
  const said = served.started.err.split('\n').filter((line) => !line.startsWith('{'));
  expect(said.join('\n')).not.toMatch(/SuppressedError| {4}at /);
  if (code !== 0) expect([code, said.join('\n')]).toEqual([1, expect.stringContaining('could not save everything')]);
}

export interface Result {
  readonly status?: string;
  readonly value?: unknown;
  readonly code?: string;
  readonly error?: unknown;
}

/** One session, and all executions of it that were answered with a result. */
export class CheckedSession {
  readonly served: Served;
  readonly id: string;
  readonly acknowledged: string[];

  constructor(served: Served, id: string, acknowledged: string[] = []) {
    this.served = served;
    this.id = id;
    this.acknowledged = acknowledged;
  }

  static async of(served: Served, agentKey: string): Promise<CheckedSession> {
    return new CheckedSession(served, await newSession(served, agentKey));
  }

  /** The same one, of another server or of one that was started again. */
  at(served: Served): CheckedSession {
    return new CheckedSession(served, this.id, this.acknowledged);
  }

  /** The answer, or the code of the error. */
  async run(code: string, more: Record<string, unknown> = {}): Promise<Result> {
    const result = await this.call<Result & { execution: string }>('POST', '/execute', { code, ...more });
    if ('execution' in result && typeof result.execution === 'string') this.acknowledged.push(result.execution);
    return result;
  }

  async call<T = Result>(method: string, path: string, body?: unknown): Promise<T | { readonly code: string }> {
    return await this.served.ask<T>(`${method} /v1/sessions/${this.id}${path}`, { body }).catch((error: unknown) => {
      if (error instanceof Refused) return { code: error.code };
      throw error;
    });
  }

  /** A program that the session has started, its kernel and the pid 1 of its sandbox, as the host sees them. */
  async processes(): Promise<{ readonly kernel: number; readonly supervisor: number }> {
    const seconds = `9${Math.trunc(Math.random() * 1e8)}`;
    await this.run(`import subprocess\nchild = subprocess.Popen(['sleep', '${seconds}'])`);
    // Others start and end meanwhile, and a look at all processes may miss some.
    const find = () => {
      const all = descendants(this.served.pid);
      const sleep = all.find(({ command }) => command === `sleep ${seconds}`);
      return all.find(({ pid }) => pid === sleep?.parent);
    };
    const kernel = await vi.waitUntil(find, { timeout: 30_000 });
    return { kernel: kernel.pid, supervisor: kernel.parent };
  }

  /** Its log is whole, and has all that it was told of. */
  async check(served = this.served): Promise<void> {
    const endings = checkEndings(this.id, await readLog(served, this.id));
    for (const execution of this.acknowledged) expect(endings.has(execution)).toBe(true);
  }
}

/** Lets all of them run one cell after the other until it is stopped. Gives the codes of all errors that they were told. */
export function underLoad(sessions: readonly CheckedSession[]) {
  const codes = new Set<string>();
  let going = true;
  const over = Promise.all(
    sessions.map(async (session) => {
      for (let round = 0; going; round++) {
        const { code } = await session.run(`print(${round}, flush=True)\n${round}`);
        if (code !== undefined) codes.add(code);
      }
    }),
  );
  over.catch(() => {}); // told by `stop`
  /** Until every one of them has so many results more. */
  const more = async (count: number): Promise<void> => {
    const goals = sessions.map(({ acknowledged }) => acknowledged.length + count);
    const reached = () => sessions.every(({ acknowledged }, index) => acknowledged.length >= (goals[index] ?? 0));
    await Promise.race([vi.waitUntil(reached, { timeout: 50_000 }), over]);
  };
  const stop = async (): Promise<ReadonlySet<string>> => {
    going = false;
    await over;
    return codes;
  };
  return { codes, more, stop };
}
