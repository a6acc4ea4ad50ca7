/** Environments for tests: how one of each kind is opened, by this process and by one that can be killed. */

import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Environment, ExecOptions } from '../../../src/environments/environment.ts';
import { LocalEnvironment } from '../../../src/environments/local/local-environment.ts';
import { SandboxEnvironment } from '../../../src/environments/sandbox-environment.ts';
import type { SessionOptions } from '../../../src/index.ts';
import type { ProcessExit } from '../../../src/protocol/process.ts';
import { type AgentSandbox, openAgentSandbox } from '../../../src/session/agent-sandbox.ts';

/** JSON: a process of its own makes the same of it. */
export interface Where {
  readonly kind: Environment['kind'];
  /** A folder that goes away with the test. */
  readonly folder: string;
  /** Of a container engine. */
  readonly engine?: string;
}

export interface Opened {
  readonly where: Where;
  readonly environment: Environment;
}

export async function openEnvironment(where: Where): Promise<Environment> {
  return where.kind === 'local'
    ? await LocalEnvironment.create(await localFolders(where.folder))
    : await SandboxEnvironment.create({ open: () => openSandbox(where) });
}

export async function attachEnvironment(where: Where, handle: unknown): Promise<Environment> {
  return where.kind === 'local'
    ? await LocalEnvironment.attach(handle)
    : await SandboxEnvironment.attach(handle, { open: () => openSandbox(where) });
}

async function localFolders(folder: string) {
  const [workspace, home, app] = ['workspace', 'home', 'app'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [workspace, home, app]) await mkdir(path, { recursive: true });
  return { kind: 'local', workspace, home, app } as const;
}

let last: AgentSandbox | undefined;

/** Kills the sandbox that was opened last. */
export function crashLast(): void {
  if (!last?.pid) throw new Error('nothing has run in it yet');
  process.kill(last.pid, 'SIGKILL');
}

async function openSandbox({ kind, folder, engine }: Where) {
  const session: SessionOptions = {
    dataDir: folder,
    ...(kind === 'docker' && engine !== undefined ? { executor: 'container', engine } : {}),
  };
  last = await openAgentSandbox({ session, folders: { node: dirname(process.execPath) } });
  return last;
}

export interface Finished {
  readonly exit: ProcessExit;
  readonly stdout: string;
  readonly stderr: string;
}

/** A Python script with its arguments, to its end. */
export async function python(
  environment: Environment,
  script: string,
  { args = [], ...options }: ExecOptions & { readonly args?: readonly string[] } = {},
): Promise<Finished> {
  const { stdout, stderr, exited } = await environment.exec(['python3', '-c', script, ...args], options);
  const [out, err, exit] = await Promise.all([buffer(stdout), buffer(stderr), exited]);
  return { exit, stdout: out.toString(), stderr: err.toString() };
}

/** Reads a stream line by line; what comes between two of them waits. */
export function linesOf(stream: Readable): { next(): Promise<string | undefined> } {
  const lines = createInterface({ input: stream })[Symbol.asyncIterator]();
  return { next: async () => (await lines.next()).value };
}
