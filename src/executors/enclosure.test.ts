/** A sandbox whose pid 1 does not answer, and cannot be ended either, holds nobody up. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { encodeFrame, FrameType } from '../protocol/frames.ts';
import { fromKernel, fromSupervisor } from '../protocol/kernel.ts';
import { SupervisedEnclosure } from './enclosure.ts';
import { FrameSocket, type PipeSource } from './sockets.ts';
import type { Way } from './way.ts';

let folder: string;
let server: Server;
let accepted: Promise<Socket>[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cella-enclosure-'));
  accepted = [];
  server = createServer().listen(join(folder, 'socket'));
  await once(server, 'listening');
});
afterEach(async () => {
  for (const socket of accepted) (await socket).destroy();
  server.close();
  rmSync(folder, { recursive: true });
});

/** A connection whose other end is this test's. */
async function connected(largest: typeof fromKernel) {
  const other = once(server, 'connection').then(([socket]): Socket => socket.resume());
  accepted.push(other);
  const socket = new FrameSocket(join(folder, 'socket'), largest);
  return { socket, other: await other };
}

test('a spare that never speaks is given up if pid 1 is held still and nothing can kill it', async () => {
  const supervisor = await connected(fromSupervisor);
  const control = await connected(fromKernel);
  const pipe = { close: () => {} } as PipeSource;
  const way: Way = {
    supervisor: supervisor.socket,
    attach: async () => ({ control: control.socket, stdout: pipe, stderr: pipe }),
    answered: (answer) => answer,
    fate: async () => ({ outOfMemory: false, lost: 'it has ended' }),
    release: async () => {},
    stillness: { lookMs: 20, heldStill: async () => true },
    // The template that should do it was stopped too.
    kill: async () => {},
  };
  const enclosure = new SupervisedEnclosure(way);
  supervisor.other.write(encodeFrame(FrameType.opened, 0, JSON.stringify({ pid: process.pid })));
  await expect(enclosure.prepare()).rejects.toMatchObject({ code: 'TEMPLATE_FAILED' });
  expect(enclosure.alive).toBe(false);
});
