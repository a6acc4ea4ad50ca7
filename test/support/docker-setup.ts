/** One engine for all files of a run: started by the first test that knocks, removed at the end. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { buildImage } from '../../src/executors/container/build-image.ts';
import { connectEngine } from '../../src/executors/container/engine.ts';
import { DockerEngine } from './docker.ts';

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'cella-door-'));
  let engine: Promise<DockerEngine> | undefined;
  let image: Promise<void> | undefined;
  const started = () => {
    engine ??= DockerEngine.start();
    return engine;
  };
  const answer = async (socket: Socket) => {
    const [word] = await once(socket, 'data');
    const { address } = await started();
    if (String(word).trim() === 'image') image ??= buildDefaultImage(address);
    await image;
    return address;
  };
  const door = createServer((socket) => {
    socket.on('error', () => {}); // a test that was broken off
    answer(socket).then(
      (address) => socket.end(address),
      (error) => socket.end(String(error)),
    );
  });
  door.listen(join(folder, 'door'));
  await once(door, 'listening');
  project.provide('dockerDoor', join(folder, 'door'));
  return async () => {
    door.close();
    await engine?.then(
      (one) => one.remove(),
      () => {}, // whoever asked for it was told
    );
    rmSync(folder, { recursive: true, force: true });
  };
}

async function buildDefaultImage(address: string): Promise<void> {
  const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
  await buildImage(await connectEngine(address), { python, version: 'test' });
}
