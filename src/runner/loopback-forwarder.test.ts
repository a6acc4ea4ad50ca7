import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type LoopbackForwarder, openLoopbackForwarder } from './loopback-forwarder.ts';

let folder: string;
let server: Server;
let forwarder: LoopbackForwarder;
let onConnection: (socket: Socket) => void;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cella-forwarder-'));
  server = createServer({ allowHalfOpen: true }, (socket) => onConnection(socket));
  server.listen(join(folder, 'gateway.sock'));
  await once(server, 'listening');
  forwarder = await openLoopbackForwarder(join(folder, 'gateway.sock'));
});

afterEach(async () => {
  await forwarder.close();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true });
});

function dial(): Socket {
  return connect({ host: '127.0.0.1', port: Number(new URL(forwarder.url).port), allowHalfOpen: true });
}

async function all(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part);
  return Buffer.concat(parts);
}

describe('the loopback port', () => {
  test('leads to a socket with a path over the maximum length', async () => {
    const deep = join(folder, 'd'.repeat(120));
    await mkdir(deep);
    await symlink(join(folder, 'gateway.sock'), join(deep, 'socket'));
    await forwarder.close();
    forwarder = await openLoopbackForwarder(join(deep, 'socket'));
    onConnection = (socket) => socket.end('hello');
    expect(String(await all(dial().end()))).toBe('hello');
  });

  test('listens only on loopback', () => {
    expect(new URL(forwarder.url).hostname).toBe('127.0.0.1');
  });

  test('forwards the end of the request, and the later answer', async () => {
    onConnection = async (socket) => {
      const request = await all(socket);
      socket.end(`${request.length} bytes came`);
    };
    const socket = dial();
    socket.end('hello');
    expect(String(await all(socket))).toBe('5 bytes came');
  });

  test('forwards bytes of many connections unchanged, each to its own', async () => {
    onConnection = (socket) => socket.pipe(socket);
    const bodies = [1, 2, 3].map((n) => Buffer.alloc(300_000, String(n)));
    const back = await Promise.all(
      bodies.map((body) => {
        const socket = dial();
        socket.end(body);
        return all(socket);
      }),
    );
    expect(back.map((body, at) => bodies[at]?.equals(body))).toEqual([true, true, true]);
  });

  test('makes the sender wait if the other side does not read', async () => {
    const connected = Promise.withResolvers<Socket>();
    onConnection = (socket) => connected.resolve(socket.pause());
    const socket = dial();
    const far = await connected.promise;
    const pieces = 24;
    let passed = 0;
    for (let sent = 0; sent < pieces; sent += 1) {
      socket.write(Buffer.alloc(1024 * 1024), () => {
        passed += 1;
      });
    }
    await settled(() => passed);
    expect(passed).toBeLessThan(pieces);
    socket.end();
    expect(await all(far)).toHaveLength(pieces * 1024 * 1024);
    far.end();
    await once(socket.resume(), 'end');
  });

  test('ends if the other side disconnects', async () => {
    onConnection = (socket) => socket.once('data', () => socket.destroy());
    const socket = dial();
    socket.write('hello');
    expect(await all(socket).catch(() => Buffer.of())).toHaveLength(0);
  });

  test('is reset if nobody listens at the socket', async () => {
    await using nowhere = await openLoopbackForwarder(join(folder, 'nobody.sock'));
    const socket = connect(Number(new URL(nowhere.url).port), '127.0.0.1');
    const [error] = await once(socket, 'error');
    expect(error).toMatchObject({ code: 'ECONNRESET' });
  });

  test('disconnects the other side if its caller disconnects', async () => {
    const ended = Promise.withResolvers<void>();
    onConnection = (socket) => {
      const end = () => ended.resolve(void socket.destroy());
      socket.resume().once('end', end).once('error', end);
    };
    const socket = dial().on('error', () => {});
    socket.write('half of a request', () => socket.resetAndDestroy());
    await ended.promise;
  });
});

/** When a number has stopped to grow. */
async function settled(count: () => number): Promise<void> {
  for (let before = -1; before !== count(); ) {
    before = count();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
