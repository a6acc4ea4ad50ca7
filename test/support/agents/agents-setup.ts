/** The programs of agents for all files of a run: brought by the product's own command when the first test asks. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const main = join(root, 'src', 'main.ts');
/** Kept from one run to the next: it is some 400 MB. */
const dataDir = join(root, '.cache', 'agents');

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'cella-agents-'));
  const brought = new Map<string, Promise<string>>();
  const bring = (agent: string) => {
    const path = brought.get(agent) ?? bringAgent(agent);
    brought.set(agent, path);
    return path;
  };
  // In a run of all suites it is needed, and takes a while that nobody then waits for. Who asks is told where it fails.
  if (process.env.CELLA_TEST_ALL === '0') bring('claude').catch(() => {});
  const answer = async (socket: Socket) => {
    const [word] = await once(socket, 'data');
    return await bring(String(word).trim());
  };
  const server = createServer((socket) => {
    socket.on('error', () => {}); // a test that was broken off
    answer(socket).then(
      (path) => socket.end(path),
      (error) => socket.end(String(error)),
    );
  });
  server.listen(join(folder, 'agents.sock'));
  await once(server, 'listening');
  project.provide('agentsSocket', join(folder, 'agents.sock'));
  return async () => {
    server.close();
    await Promise.allSettled(brought.values());
    rmSync(folder, { recursive: true, force: true });
  };
}

/** Gives the folder of its program. */
export async function bringAgent(agent: string): Promise<string> {
  const words = ['agents', 'install', agent, '--data', dataDir, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...words]);
  return JSON.parse(stdout).installed.path;
}
