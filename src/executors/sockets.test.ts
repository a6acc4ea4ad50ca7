/** Frame connections: whether anybody is at the other end. */

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { FrameSocket } from './sockets.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-sockets-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a connection', () => {
  test('is reached where somebody listens, and stays so when it ends', async () => {
    const path = join(folder, 'open');
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const socket = new FrameSocket(path, new Map());
    expect(await socket.reached).toBe(true);
    await new Promise<void>((resolve) =>
      socket.read(
        () => {},
        () => resolve(),
      ),
    );
    expect(await socket.reached).toBe(true);
    server.close();
  });

  test('is not reached where nobody does, and says why', async () => {
    const socket = new FrameSocket(join(folder, 'nobody'), new Map());
    expect(await socket.reached).toBe(false);
    const problem = await new Promise<Error | undefined>((resolve) => socket.read(() => {}, resolve));
    expect(problem).toMatchObject({ code: 'ENOENT' });
  });
});
