import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { FrameSocket, PipeSource } from './supervisor-transport.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-sockets-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a connection', () => {
  test('connects if somebody listens, and stays connected after the other side has closed', async () => {
    const path = join(folder, 'open');
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const socket = new FrameSocket(path, new Map());
    expect(await socket.connected).toBe(true);
    await new Promise<void>((resolve) =>
      socket.read(
        () => {},
        () => resolve(),
      ),
    );
    expect(await socket.connected).toBe(true);
    server.close();
  });

  test('fails with the reason if nobody listens', async () => {
    const socket = new FrameSocket(join(folder, 'nobody'), new Map());
    expect(await socket.connected).toBe(false);
    const problem = await new Promise<Error | undefined>((resolve) => socket.read(() => {}, resolve));
    expect(problem).toMatchObject({ code: 'ENOENT' });
  });
});

describe('a pipe', () => {
  test('that always has more data is read one piece per turn of the event loop, and completely', async () => {
    const path = join(folder, 'pipe');
    execFileSync('mkfifo', [path]);
    const source = new PipeSource(path);
    const sent = 8 * 1024 * 1024;
    // F_SETPIPE_SZ: a kernel's pipe holds a megabyte, if the system allows it.
    const write = `import fcntl, sys; pipe = open(sys.argv[1], 'wb', 0); fcntl.fcntl(pipe, 1031, 1 << 20); [pipe.write(b'x' * (1 << 20)) for _ in range(8)]`;
    spawn(process.env.CELLA_PYTHON ?? 'python3', ['-c', write, path], { stdio: 'inherit' });
    let [turns, read, most, inTurn] = [0, 0, 0, 0];
    let over = false;
    const count = () => {
      turns += 1;
      most = Math.max(most, inTurn);
      inTurn = 0;
      if (!over) setImmediate(count);
    };
    setImmediate(count);
    const ended = new Promise<void>((resolve) =>
      source.read(
        (chunk) => {
          read += chunk.length;
          inTurn += chunk.length;
          return true;
        },
        () => resolve(),
      ),
    );
    await ended;
    over = true;
    expect(read).toBe(sent);
    expect(most).toBeLessThanOrEqual(96 * 1024);
    expect(turns).toBeGreaterThanOrEqual(sent / (96 * 1024));
  });
});
