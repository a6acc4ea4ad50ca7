import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { encodeFrame, FrameType } from '../../protocol/kernel-frames.ts';
import { ContainerListener } from './container-listener.ts';

let folder: string;
let listener: ContainerListener;
const signal = new AbortController().signal;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cella-listener-test-'));
  listener = await ContainerListener.open(folder);
});
afterEach(() => {
  listener.close();
  rmSync(folder, { recursive: true, force: true });
});

function openSocket(token?: Uint8Array): Socket {
  const socket = connect(join(folder, 'host'));
  socket.on('error', () => {}); // some are refused
  if (token) socket.write(encodeFrame(FrameType.join, 0, token));
  return socket;
}

const refused = (socket: Socket) => new Promise<void>((resolve) => socket.resume().once('close', () => resolve()));

describe('the listener of a container', () => {
  test('accepts a connection with the token, and the data after it', async () => {
    const { token, connection } = listener.expect(signal);
    const socket = openSocket(token);
    socket.end('and more');
    expect(await text(await connection)).toBe('and more');
  });

  test('accepts a token that arrives in pieces', async () => {
    const { token, connection } = listener.expect(signal);
    const frame = encodeFrame(FrameType.join, 0, token);
    const socket = openSocket();
    socket.write(frame.subarray(0, 5));
    await new Promise((resolve) => socket.write(frame.subarray(5, 20), resolve));
    socket.end(frame.subarray(20));
    expect(await text(await connection)).toBe('');
  });

  test('accepts each token once', async () => {
    const { token, connection } = listener.expect(signal);
    openSocket(token);
    (await connection).destroy();
    await refused(openSocket(token));
  });

  test('refuses another token, another frame or a withdrawn token', async () => {
    const stop = new AbortController();
    const { token, connection } = listener.expect(stop.signal);
    stop.abort(new Error('given up'));
    await expect(connection).rejects.toThrow('given up');
    await refused(openSocket(token));
    await refused(openSocket(new Uint8Array(32)));
    const other = connect(join(folder, 'host'));
    other.on('error', () => {}); // it is refused
    other.write(encodeFrame(FrameType.open, 0, new Uint8Array(32)));
    await refused(other);
  });

  test('keeps a few silent connections, and closes the oldest for a new one', async () => {
    const silent = Array.from({ length: 64 }, () => openSocket());
    await Promise.all(silent.slice(0, 48).map(refused));
    const { token, connection } = listener.expect(signal);
    openSocket(token);
    (await connection).destroy();
    for (const socket of silent) socket.destroy();
  });

  test('has no path after it is hidden', () => {
    expect(existsSync(join(folder, 'host'))).toBe(true);
    listener.hide();
    expect(existsSync(join(folder, 'host'))).toBe(false);
  });
});
