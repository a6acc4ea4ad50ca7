/** Sandboxes for coding agents in tests: with Node, programs of the tests' own and a gateway, and closed after the test. */

import { createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { RunningProgram } from '../../../src/environments/kernel-host.ts';
import type { SessionOptions } from '../../../src/index.ts';
import type { ByteSource } from '../../../src/kernel/kernel-connection.ts';
import type { ProgramSpec } from '../../../src/protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../../src/protocol/process.ts';
import { listenInGateway, makeGatewayFolder } from '../../../src/sandbox/mount-points.ts';
import type { DeniedAttempt } from '../../../src/sandbox/proxy/proxy.ts';
import { type AgentSandbox, openAgentSandbox } from '../../../src/session/agent-sandbox.ts';
import { scratchFolder } from '../kernels/session.ts';
import { shareCache } from '../run/shared-cache.ts';

/** Programs that run inside. */
const inside = fileURLToPath(new URL('agent-inside', import.meta.url));

export interface OpenAgent {
  readonly session?: SessionOptions;
  /** The folder of Node, in place of the one that runs the tests. */
  readonly node?: string;
  /** The folder of installed agents. */
  readonly programs?: string;
  readonly gateway?: string;
  readonly onDenied?: (attempt: DeniedAttempt) => void;
  /** Whoever opened it closes it; else it is closed after the test. */
  readonly lasting?: boolean;
}

export async function openAgent({
  session = {},
  node,
  programs,
  gateway,
  onDenied,
  lasting,
}: OpenAgent = {}): Promise<AgentSandbox> {
  const dataDir = session.dataDir ?? (await scratchFolder());
  // What an image says of itself is asked once a run.
  if (session.executor === 'container') shareCache(dataDir);
  const sandbox = await openAgentSandbox({
    session: { ...session, dataDir },
    folders: { node: node ?? dirname(process.execPath), runner: inside, programs, gateway },
    onDenied,
  });
  if (!lasting) onTestFinished(() => sandbox.close());
  return sandbox;
}

/** A gateway whose socket leads to whatever `server` is. */
export async function openGateway(server: Server = createServer((socket) => socket.end('gateway'))): Promise<string> {
  const folder = makeGatewayFolder(join(await scratchFolder(), 'gateways'));
  await listenInGateway(folder, server);
  onTestFinished(() => void server.close());
  return folder;
}

export type Finished = ProcessExit & {
  readonly stdout: string;
  readonly stderr: string;
  readonly problem?: string;
};

/** Runs a program to its end, with this input. */
export async function finish(sandbox: AgentSandbox, program: Partial<ProgramSpec>, input?: string): Promise<Finished> {
  const stdin = input === undefined ? {} : { stdin: 'open' as const };
  const link = await sandbox.exec({ argv: [], env: {}, ...program, ...stdin });
  if (input !== undefined) {
    void link.stdin?.write(Buffer.from(input));
    link.stdin?.end();
  }
  return await heard(link);
}

/** A script for the Node inside. */
export function script(sandbox: AgentSandbox, code: string): Pick<ProgramSpec, 'argv'> {
  return { argv: [join(sandbox.paths.node, 'node'), '--input-type=module', '-e', code] };
}

export async function heard(link: RunningProgram): Promise<Finished> {
  const [stdout, stderr, exit] = await Promise.all([outputOf(link.stdout).all, outputOf(link.stderr).all, link.exited]);
  return { ...exit, stdout, stderr };
}

/** Resolves when it has printed this; it goes on, and `heard` tells of all that it prints. */
export async function said(link: RunningProgram, words: string): Promise<void> {
  const { spoken } = outputOf(link.stdout);
  while (!spoken.text().includes(words)) {
    if (spoken.ended) throw new Error(`it ended without ${words}: ${JSON.stringify(await heard(link))}`);
    await spoken.more();
  }
}

interface Output {
  readonly all: Promise<string>;
  readonly spoken: { readonly ended: boolean; text(): string; more(): Promise<void> };
}

const outputs = new WeakMap<ByteSource, Output>();

function outputOf(source: ByteSource): Output {
  const known = outputs.get(source);
  if (known) return known;
  const parts: Buffer[] = [];
  let next = Promise.withResolvers<void>();
  const spoken = { ended: false, text: () => Buffer.concat(parts).toString(), more: () => next.promise };
  const tell = () => {
    next.resolve();
    next = Promise.withResolvers();
  };
  const all = new Promise<string>((resolve) => {
    source.read(
      (chunk) => {
        parts.push(Buffer.from(chunk));
        tell();
        return true;
      },
      () => {
        spoken.ended = true;
        tell();
        resolve(spoken.text());
      },
    );
  });
  const output = { all, spoken };
  outputs.set(source, output);
  return output;
}
