/** Enclosures for coding agents in tests: with Node, programs of the tests' own and a gateway, and closed after the test. */

import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { CommandLink, Program } from '../../src/executors/contract.ts';
import type { SessionOptions } from '../../src/index.ts';
import type { ByteSource, Exit } from '../../src/kernel/link.ts';
import { makeGatewayFolder } from '../../src/sandbox/agent-place.ts';
import { type AgentEnclosure, openAgentEnclosure } from '../../src/session/agent-enclosure.ts';
import { scratchFolder } from './session.ts';

/** Programs that run inside. */
const inside = fileURLToPath(new URL('agent-inside', import.meta.url));

export interface OpenAgent {
  readonly session?: SessionOptions;
  /** The folder of installed agents. */
  readonly programs?: string;
  readonly gateway?: string;
}

export async function openAgent({ session = {}, programs, gateway }: OpenAgent = {}): Promise<AgentEnclosure> {
  const enclosure = await openAgentEnclosure({
    session: { dataDir: session.dataDir ?? (await scratchFolder()), ...session },
    folders: { node: dirname(process.execPath), runner: inside, programs, gateway },
  });
  onTestFinished(() => enclosure.close());
  return enclosure;
}

/** A gateway whose socket leads to whatever `server` is. */
export async function openGateway(server: Server = createServer((socket) => socket.end('gateway'))): Promise<string> {
  const folder = makeGatewayFolder(join(await scratchFolder(), 'gateways'));
  server.listen(join(folder, 'socket'));
  await once(server, 'listening');
  await chmod(join(folder, 'socket'), 0o666);
  onTestFinished(() => void server.close());
  return folder;
}

export interface Finished extends Exit {
  readonly stdout: string;
  readonly stderr: string;
  readonly problem?: string;
}

/** Runs a program to its end, with this input. */
export async function finish(enclosure: AgentEnclosure, program: Partial<Program>, input?: string): Promise<Finished> {
  const stdin = input === undefined ? {} : { stdin: 'open' as const };
  const link = await enclosure.command({ argv: [], env: {}, ...program, ...stdin });
  if (input !== undefined) {
    void link.stdin?.write(Buffer.from(input));
    link.stdin?.end();
  }
  return await heard(link);
}

/** A script for the Node inside. */
export function script(enclosure: AgentEnclosure, code: string): Pick<Program, 'argv'> {
  return { argv: [join(enclosure.paths.node, 'node'), '--input-type=module', '-e', code] };
}

export async function heard(link: CommandLink): Promise<Finished> {
  const [stdout, stderr, exit] = await Promise.all([gather(link.stdout), gather(link.stderr), link.exited]);
  return { ...exit, stdout: stdout.toString(), stderr: stderr.toString() };
}

function gather(source: ByteSource): Promise<Buffer> {
  const parts: Buffer[] = [];
  return new Promise((resolve) => {
    source.read(
      (chunk) => {
        parts.push(Buffer.from(chunk));
        return true;
      },
      () => resolve(Buffer.concat(parts)),
    );
  });
}
