import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Container } from './container.ts';
import { callEngine, connectEngine, type Engine, findEngine, usualSockets } from './engine.ts';
import { findImage } from './image-python.ts';
import { listImages } from './image-store.ts';

let folder: string;
const closing: (() => Promise<void>)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cella-engines-'));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const close of closing.splice(0)) await close();
  rmSync(folder, { recursive: true, force: true });
});

/** A server on a socket in the folder. */
async function listening(name: string, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  const socket = join(folder, name);
  server.listen(socket);
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return socket;
}

const json =
  (body: unknown, status = 200): RequestListener =>
  (_, response) => {
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
  };
const docker = json({ Version: '20.10.24', Components: [{ Name: 'Engine' }] });
const podman = json({ Version: '4.3.1', Components: [{ Name: 'Podman Engine' }] });
/** Answers only a ping, with this Server header. */
const calling =
  (server: string): RequestListener =>
  (request, response) => {
    if (request.url === '/_ping') response.writeHead(200, { Server: server }).end('OK');
    // Any other request gets no answer: Podman takes seconds to report its version.
  };
const unreachable = (words: RegExp) => ({ code: 'ENGINE_UNREACHABLE', message: expect.stringMatching(words) });

describe('connectEngine', () => {
  it('accepts an address or a path, and reports which engine it is', async () => {
    const one = await connectEngine(`unix://${await listening('docker.sock', docker)}`);
    expect(one).toMatchObject({ name: 'docker', version: '20.10.24', address: `unix://${folder}/docker.sock` });
    const other = await connectEngine(await listening('podman.sock', podman));
    expect(other).toMatchObject({ name: 'podman', version: '4.3.1' });
  });

  it.each([
    ['Docker/20.10.24+dfsg1 (linux)', { name: 'docker', version: '20.10.24+dfsg1' }],
    ['Libpod/4.3.1 (linux)', { name: 'podman', version: '4.3.1' }],
  ])('sends no slow request to an engine whose header has its name: %s', async (server, called) => {
    expect(await connectEngine(await listening('some.sock', calling(server)))).toMatchObject(called);
  });

  it.each(['tcp://127.0.0.1:2375', 'ssh://root@elsewhere', 'http://localhost', 'npipe:////./pipe/docker_engine'])(
    'refuses an engine that cannot mount folders of this machine: %s',
    async (address) => {
      await expect(connectEngine(address)).rejects.toMatchObject(unreachable(/Unix socket here/));
    },
  );

  it.each(['docker.sock', 'unix://docker.sock', ''])('refuses an invalid address: %j', async (address) => {
    await expect(connectEngine(address)).rejects.toMatchObject(unreachable(/Unix socket here/));
  });

  it('does not repeat an address that may contain a password', async () => {
    await expect(connectEngine('tcp://ada:hush@host')).rejects.not.toThrow(/hush/);
  });

  it('reports a missing socket, and one without a listener', async () => {
    await expect(connectEngine(join(folder, 'none'))).rejects.toMatchObject(unreachable(/there is no socket/));
    writeFileSync(join(folder, 'file'), '');
    await expect(connectEngine(join(folder, 'file'))).rejects.toMatchObject(unreachable(/nothing listens there/));
  });

  it('does not accept another kind of server', async () => {
    const socket = await listening('web.sock', (_, response) => response.end('<html>'));
    await expect(connectEngine(socket)).rejects.toMatchObject(unreachable(/not a container engine/));
  });

  it('uses the given address, whatever DOCKER_HOST is', async () => {
    vi.stubEnv('DOCKER_HOST', 'tcp://127.0.0.1:1');
    expect(await connectEngine(await listening('docker.sock', docker))).toMatchObject({ name: 'docker' });
  });
});

describe('findEngine', () => {
  it('uses the first that answers, and skips the others', async () => {
    const dead = join(folder, 'none.sock');
    const broken = await listening('broken.sock', json({ message: 'starting up' }, 500));
    const socket = await listening('docker.sock', docker);
    expect(await findEngine([dead, broken, socket])).toMatchObject({ address: `unix://${socket}` });
  });

  it('lists everything that was tried, and says what to start', async () => {
    const broken = await listening('broken.sock', json({ message: 'starting up' }, 500));
    const failure = await findEngine([join(folder, 'none.sock'), broken]).catch((error: unknown) => error);
    expect(failure).toMatchObject(unreachable(/none\.sock \(not there\).*broken\.sock \(.*starting up/));
    expect(failure).toMatchObject({ advice: expect.stringContaining('systemctl start docker') });
  });

  it('tries the sockets of Docker and Podman, including those of a user', () => {
    expect(usualSockets('/run/user/7')).toEqual([
      '/var/run/docker.sock',
      '/run/docker.sock',
      '/run/user/7/docker.sock',
      '/run/podman/podman.sock',
      '/run/user/7/podman/podman.sock',
    ]);
  });
});

describe('callEngine', () => {
  const engine = { address: 'unix:///engine' };

  it('gives up on an engine that does not answer', async () => {
    const silent = callEngine(engine, 'starting a container', () => new Promise(() => {}), { timeoutMs: 20 });
    await expect(silent).rejects.toMatchObject(unreachable(/did not answer within 0\.02 s: starting a container/));
  });

  it('stops waiting when its caller does', async () => {
    const stop = new AbortController();
    const silent = callEngine(engine, 'starting a container', () => new Promise(() => {}), { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(silent).rejects.toThrow('enough');
  });

  it('distinguishes an engine that stopped from one that refuses, in its own words', async () => {
    const answers = { '/images/none/json': json({ message: 'No such image: none:latest' }, 404) };
    const socket = await listening('docker.sock', (request, response) => {
      const known = Object.entries(answers).find(([path]) => path === request.url)?.[1];
      if (known) known(request, response);
      else if (['/_ping', '/version'].includes(request.url ?? '')) docker(request, response);
      else if (request.url === '/images/gone/json') request.socket.destroy();
      else json({ message: 'OCI runtime error:\n  no space left on device.\n' }, 500)(request, response);
    });
    const { docker: client, address } = await connectEngine(socket);
    const look = (image: string) =>
      callEngine({ address }, 'looking', () => client.getImage(image).inspect(), { image });
    await expect(look('none')).rejects.toMatchObject({ code: 'IMAGE_NOT_FOUND', details: { image: 'none' } });
    await expect(look('gone')).rejects.toMatchObject(unreachable(/closed the connection/));
    await expect(look('full')).rejects.toMatchObject({
      code: 'CONTAINER_FAILED',
      message: 'The container engine failed at looking: OCI runtime error: no space left on device.',
    });
  });
});

describe('an invalid answer of an engine', () => {
  it.each([
    ['listing images', (engine: Engine) => listImages(engine)],
    ['inspecting the image', (engine: Engine) => findImage(engine, 'some')],
    ['inspecting a container', (engine: Engine) => new Container(engine, 'a'.repeat(64)).state()],
  ])('is reported: %s', async (what, ask) => {
    const socket = await listening('docker.sock', (request, response) => {
      if (request.url === '/version') docker(request, response);
      else json({ odd: true })(request, response);
    });
    const failure = { code: 'CONTAINER_FAILED', message: expect.stringMatching(`sent an invalid answer: ${what}`) };
    await expect(ask(await connectEngine(socket))).rejects.toMatchObject(failure);
  });
});
