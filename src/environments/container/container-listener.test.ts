import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { encodeFrame, FrameType } from '../../protocol/kernel-frames.ts';
import { ContainerListener } from './container-listener.ts';

let folder: string;
let door: ContainerListener;
const signal = new AbortController().signal;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cella-door-test-'));
  door = await ContainerListener.open(folder);
});
afterEach(() => {
  door.close();
  rmSync(folder, { recursive: true, force: true });
});

function knock(word?: Uint8Array): Socket {
  const socket = connect(join(folder, 'host'));
  socket.on('error', () => {}); // some are sent away
  if (word) socket.write(encodeFrame(FrameType.join, 0, word));
  return socket;
}

const sentAway = (socket: Socket) => new Promise<void>((resolve) => socket.resume().once('close', () => resolve()));

describe('the door of a container', () => {
  test('lets in who says the word, with what follows it', async () => {
    const { token: word, connection } = door.expect(signal);
    const socket = knock(word);
    socket.end('and more');
    expect(await text(await connection)).toBe('and more');
  });

  test('takes a word that comes in pieces', async () => {
    const { token: word, connection } = door.expect(signal);
    const frame = encodeFrame(FrameType.join, 0, word);
    const socket = knock();
    socket.write(frame.subarray(0, 5));
    await new Promise((resolve) => socket.write(frame.subarray(5, 20), resolve));
    socket.end(frame.subarray(20));
    expect(await text(await connection)).toBe('');
  });

  test('takes each word once', async () => {
    const { token: word, connection } = door.expect(signal);
    knock(word);
    (await connection).destroy();
    await sentAway(knock(word));
  });

  test('sends away who says another word, another frame or one that was given up', async () => {
    const stop = new AbortController();
    const { token: word, connection } = door.expect(stop.signal);
    stop.abort(new Error('given up'));
    await expect(connection).rejects.toThrow('given up');
    await sentAway(knock(word));
    await sentAway(knock(new Uint8Array(32)));
    const other = connect(join(folder, 'host'));
    other.on('error', () => {}); // it is sent away
    other.write(encodeFrame(FrameType.open, 0, new Uint8Array(32)));
    await sentAway(other);
  });

  test('keeps a few who say nothing, and sends the oldest away for the next: who knows the word comes in', async () => {
    const silent = Array.from({ length: 64 }, () => knock());
    await Promise.all(silent.slice(0, 48).map(sentAway));
    const { token: word, connection } = door.expect(signal);
    knock(word);
    (await connection).destroy();
    for (const socket of silent) socket.destroy();
  });

  test('has no name once it is hidden', () => {
    expect(existsSync(join(folder, 'host'))).toBe(true);
    door.hide();
    expect(existsSync(join(folder, 'host'))).toBe(false);
  });
});
