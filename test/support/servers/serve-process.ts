/** `cella serve` in a process of its own, on a free port of the loopback: it can be killed, and its memory can be read. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Cella, Started, StartOptions } from '../cli/command.ts';

const LOOK_MS = 20;

export interface AskOptions {
  /** By default the admin's. */
  readonly token?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The server has answered that it could not. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(what: string, status: number, text: string) {
    super(`${what} was answered with ${status}: ${text.slice(0, 500)}`);
    this.status = status;
    this.code = /"code":"(\w+)"/.exec(text)?.[1] ?? '';
  }
}

/** Resolves when the server has told where it is; fails if it ends before. */
async function untilServing(cella: Cella, { child }: Started): Promise<void> {
  const told = join(`/proc/${child.pid}/root`, cella.dataDir, 'daemon.json');
  while (!existsSync(told) || JSON.parse(readFileSync(told, 'utf8')).pid !== child.pid) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the server has ended');
    await delay(LOOK_MS);
  }
}

export class Served implements AsyncDisposable {
  readonly started: Started;
  readonly url: string;
  readonly token: string;
  /** As this process reaches it. */
  readonly dataDir: string;

  private constructor(started: Started, dataDir: string) {
    this.started = started;
    // As it sees its folder: there may be a disk of its own.
    const seen = join(`/proc/${started.child.pid}/root`, dataDir);
    this.dataDir = seen;
    this.url = JSON.parse(readFileSync(join(seen, 'daemon.json'), 'utf8')).url;
    this.token = readFileSync(join(seen, 'admin-token'), 'utf8').trim();
  }

  /** In the data folder of `cella`. */
  static async start(
    cella: Cella,
    flags: readonly string[] = [],
    options: StartOptions & { /** Its output cannot be read. */ readonly unheard?: boolean } = {},
  ): Promise<Served> {
    const started = cella.start(['serve', '--port', '0', '--log-level', 'warn', ...flags], options);
    if (options.unheard) await untilServing(cella, started);
    else await started.says('The first cell');
    return new Served(started, cella.dataDir);
  }

  get pid(): number {
    return this.started.child.pid ?? 0;
  }

  /** The memory of the server itself that is in use now, without its kernels. */
  get residentMb(): number {
    const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8')) ?? [];
    return Number(kb) / 1024;
  }

  /** `what` is a method and a path. Fails with `Refused` where the answer is no success. */
  async ask<T = Record<string, unknown>>(what: string, { token, body, headers = {} }: AskOptions = {}): Promise<T> {
    const [method = 'GET', path = '/'] = what.split(' ');
    const response = await fetch(new URL(path, this.url), {
      method,
      headers: { authorization: `Bearer ${token ?? this.token}`, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Refused(what, response.status, text);
    return (text === '' ? {} : JSON.parse(text)) as T;
  }

  /** Resolves when it and everybody who held its output are gone. */
  async kill(): Promise<void> {
    this.started.child.kill('SIGKILL');
    await this.started.ended;
  }

  /** In good order. */
  async end(): Promise<void> {
    this.started.child.kill('SIGTERM');
    const code = await this.started.ended;
    if (code !== 0) throw new Error(`the server ended with ${code}: ${this.started.err.slice(-2000)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, signalCode } = this.started.child;
    if (exitCode === null && signalCode === null) await this.end();
  }
}
