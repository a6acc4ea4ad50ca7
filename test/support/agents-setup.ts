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

const root = fileURLToPath(new URL('../..', import.meta.url));
const main = join(root, 'src', 'main.ts');
/** Kept from one run to the next: it is some 400 MB. */
const dataDir = join(root, '.cache', 'agents');

export default async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'cella-agents-'));
  const brought = new Map<string, Promise<string>>();
  const answer = async (socket: Socket) => {
    const [word] = await once(socket, 'data');
    const agent = String(word).trim();
    const path = brought.get(agent) ?? bringAgent(agent);
    brought.set(agent, path);
    return await path;
  };
  const door = createServer((socket) => {
    socket.on('error', () => {}); // a test that was broken off
    answer(socket).then(
      (path) => socket.end(path),
      (error) => socket.end(String(error)),
    );
  });
  door.listen(join(folder, 'door'));
  await once(door, 'listening');
  project.provide('agentsDoor', join(folder, 'door'));
  return () => {
    door.close();
    rmSync(folder, { recursive: true, force: true });
  };
}

/** Gives the folder of its program. */
export async function bringAgent(agent: string): Promise<string> {
  const words = ['agents', 'install', agent, '--data', dataDir, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...words]);
  return JSON.parse(stdout).installed.path;
}
