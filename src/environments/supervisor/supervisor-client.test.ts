import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { encodeFrame, FrameType } from '../../protocol/kernel-frames.ts';
import { fromKernel, fromSupervisor } from '../../protocol/kernel-payloads.ts';
import { closeIfPaused, SupervisorClient } from './supervisor-client.ts';
import type { SupervisorTransport } from './supervisor-transport.ts';
import { FrameSocket, type PipeSource } from './supervisor-transport.ts';

let folder: string;
let server: Server;
let accepted: Promise<Socket>[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cella-host-'));
  accepted = [];
  server = createServer().listen(join(folder, 'socket'));
  await once(server, 'listening');
});
afterEach(async () => {
  for (const socket of accepted) (await socket).destroy();
  server.close();
  rmSync(folder, { recursive: true });
});

/** A connection, and its other end, which the test uses. */
async function connected(largest: typeof fromKernel) {
  const other = once(server, 'connection').then(([socket]): Socket => socket.resume());
  accepted.push(other);
  const socket = new FrameSocket(join(folder, 'socket'), largest);
  return { socket, other: await other };
}

test('a spare that never answers is given up if pid 1 is stopped and cannot be killed', async () => {
  const supervisor = await connected(fromSupervisor);
  const control = await connected(fromKernel);
  const pipe = { close: () => {} } as PipeSource;
  const transport: SupervisorTransport = {
    supervisor: supervisor.socket,
    connect: async () => ({ control: control.socket, stdout: pipe, stderr: pipe }),
    awaitAnswer: (answer) => answer,
    exitReason: async () => ({ signal: 'SIGKILL', environmentEnded: 'it has ended' }),
    close: async () => {},
    pauseCheck: { checkAfterMs: 20, isPaused: async () => true },
    // The template that would kill it is stopped, too.
    kill: async () => {},
  };
  const host = new SupervisorClient(transport);
  supervisor.other.write(encodeFrame(FrameType.opened, 0, JSON.stringify({ pid: process.pid })));
  await expect(host.prestart()).rejects.toMatchObject({ code: 'TEMPLATE_FAILED' });
  expect(host.alive).toBe(false);
});

describe('a kill of a process that may be stopped', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function killed({ held }: { held: boolean }) {
    const exit = Promise.withResolvers<void>();
    const end = vi.fn<() => void>();
    const isPaused = vi.fn<() => Promise<boolean>>(async () => held);
    closeIfPaused(exit.promise, 1, { checkAfterMs: 1500, isPaused }, end);
    return { exit, end, isPaused };
  }

  test('checks nothing if the process ends at once', async () => {
    const { exit, end, isPaused } = killed({ held: true });
    exit.resolve();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(isPaused).not.toHaveBeenCalled();
    expect(end).not.toHaveBeenCalled();
  });

  test('waits for a slow process on a busy machine', async () => {
    const { exit, end, isPaused } = killed({ held: false });
    await vi.advanceTimersByTimeAsync(12_000);
    expect(isPaused).toHaveBeenCalled();
    exit.resolve();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(end).not.toHaveBeenCalled();
  });

  test('ends everything at the first check if the process is stopped', async () => {
    const { end } = killed({ held: true });
    await vi.advanceTimersByTimeAsync(1500);
    expect(end).toHaveBeenCalledOnce();
  });

  test('ends everything, once, if the kill never takes effect', async () => {
    const { end } = killed({ held: false });
    await vi.advanceTimersByTimeAsync(120_000);
    expect(end).toHaveBeenCalledOnce();
  });

  test('counts the time of a slow check', async () => {
    const { end, isPaused } = killed({ held: false });
    isPaused.mockImplementation(() => new Promise((resolve) => setTimeout(resolve, 10_000, false)));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(end).toHaveBeenCalledOnce();
  });

  test('does nothing more if the process ends during a check', async () => {
    const { exit, end, isPaused } = killed({ held: true });
    isPaused.mockImplementation(async () => {
      exit.resolve();
      await exit.promise;
      return true;
    });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(end).not.toHaveBeenCalled();
  });
});
