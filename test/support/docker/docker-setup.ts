/** One engine of a kind for all files of a run: started when the first test asks, removed at the end. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { z } from 'zod';
import { connectEngine } from '../../../src/environments/container/engine.ts';
import { buildImage } from '../../../src/environments/container/image-store.ts';
import { DockerEngine, type EngineKind } from './docker.ts';

const Wanted = z.tuple([z.enum(['docker', 'podman']), z.enum(['engine', 'image'])]);

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'cella-docker-'));
  const engines = new Map<EngineKind, Promise<DockerEngine>>();
  const images = new Map<EngineKind, Promise<void>>();
  const answer = async (socket: Socket) => {
    const [words] = await once(socket, 'data');
    const [kind, what] = Wanted.parse(String(words).trim().split(' '));
    const engine = engines.get(kind) ?? DockerEngine.start(kind);
    engines.set(kind, engine);
    const { address } = await engine;
    const image = images.get(kind) ?? (what === 'image' ? buildDefaultImage(address) : undefined);
    if (image) images.set(kind, image);
    if (what === 'image') await image;
    return address;
  };
  const server = createServer((socket) => {
    socket.on('error', () => {}); // a test that was broken off
    answer(socket).then(
      (address) => socket.end(address),
      (error) => socket.end(String(error)),
    );
  });
  server.listen(join(folder, 'docker.sock'));
  await once(server, 'listening');
  project.provide('dockerSocket', join(folder, 'docker.sock'));
  return async () => {
    server.close();
    for (const engine of engines.values()) {
      await engine.then(
        (one) => one.remove(),
        () => {}, // whoever asked for it was told
      );
    }
    rmSync(folder, { recursive: true, force: true });
  };
}

async function buildDefaultImage(address: string): Promise<void> {
  const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
  await buildImage(await connectEngine(address), { python, version: 'test' });
}
