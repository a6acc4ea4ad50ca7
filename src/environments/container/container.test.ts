import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { LABEL, type Owner, removeOrphans, runThrowaway } from './container.ts';
import { connectEngine } from './engine.ts';

/** An engine with these containers. `removed` lists the ids that it was asked to remove. */
async function engineWith(containers: readonly { Id: string; State: string; Labels: Record<string, string> }[]) {
  const folder = mkdtempSync(join(tmpdir(), 'cella-leftovers-'));
  const removed: string[] = [];
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request;
    if (url === '/_ping') response.writeHead(200, { Server: 'Libpod/4.3.1 (linux)' }).end('OK');
    else if (method === 'GET') response.end(JSON.stringify(containers));
    else {
      removed.push(/containers\/(\w+)/.exec(url)?.[1] ?? url);
      response.writeHead(204).end();
    }
  });
  server.listen(join(folder, 'socket'));
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { engine: await connectEngine(join(folder, 'socket')), folder, removed };
}

const owner: Owner = { self: 'me', stateOf: (whose) => (whose === 'dead' || whose === 'alive' ? whose : 'unknown') };
const of = (whose: string, State: string, number = '0') => ({
  Id: `${whose}${State}${number}`,
  State,
  Labels: { [LABEL.owner]: whose, [LABEL.number]: number },
});

it('removes leftovers of dead processes, and ended ones of invisible processes, with either engine', async () => {
  const unseen = ['running', 'paused', 'exited', 'stopped', 'dead'].map((state) => of('elsewhere', state));
  const others = [of('dead', 'running'), of('alive', 'running'), of('alive', 'exited')];
  const { engine, folder, removed } = await engineWith([...unseen, ...others]);
  await removeOrphans(engine, folder, owner, new Set());
  expect(removed.sort()).toEqual(['deadrunning0', 'elsewheredead0', 'elsewhereexited0', 'elsewherestopped0']);
});

it('removes its own unused containers', async () => {
  const { engine, folder, removed } = await engineWith([of('me', 'running', '1'), of('me', 'exited', '2')]);
  await removeOrphans(engine, folder, owner, new Set(['1']));
  expect(removed).toEqual(['meexited2']);
});

/** A frame of output as engines send it. */
function frame(stream: number, text: string): Buffer {
  const [head, bytes] = [Buffer.alloc(8), Buffer.from(text)];
  head.writeUInt8(stream, 0);
  head.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([head, bytes]);
}

/** How a container ends, and its output, if the engine sends these bytes. */
async function outcomeOf(sent: Buffer) {
  const folder = mkdtempSync(join(tmpdir(), 'cella-output-'));
  let attached: ServerResponse | undefined;
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request;
    if (url === '/_ping') response.writeHead(200, { Server: 'Docker/20.10.24 (linux)' }).end('OK');
    else if (url.includes('/containers/create')) response.writeHead(201).end('{"Id":"c1"}');
    else if (url.includes('/attach')) {
      attached = response.writeHead(200, { 'content-type': 'application/vnd.docker.raw-stream' });
      response.flushHeaders();
    } else {
      response.writeHead(204).end();
      if (method === 'POST') attached?.end(sent);
    }
  });
  server.listen(join(folder, 'socket'));
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const engine = await connectEngine(join(folder, 'socket'));
  return await runThrowaway(engine, {
    ...{ image: 'sha256:1', name: 'an image', argv: ['python3'], as: 'nobody', labels: {}, timeoutMs: 10_000 },
  });
}

it('reads a container’s stdout and stderr byte by byte', async () => {
  const letters = Array.from({ length: 20_000 }, (_, n) => frame(n % 4 === 0 ? 2 : 1, 'x'));
  const sent = Buffer.concat([frame(1, 'é'), ...letters, frame(1, ''), frame(2, 'end')]);
  const expected = { kind: 'ended', output: `é${'x'.repeat(15_000)}`, errors: `${'x'.repeat(5000)}end` };
  expect(await outcomeOf(sent)).toEqual(expected);
});

it('refuses invalid container output', async () => {
  await expect(outcomeOf(frame(7, 'x'))).rejects.toMatchObject({ code: 'IMAGE_UNUSABLE' });
});
