/** The client as a page has it: bundled for browsers, in a world without Node. */

import { join } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { rolldown } from 'rolldown';
import { expect, it } from 'vitest';
import type * as api from '../../../src/client/index.ts';
import { TestServer } from '../../support/servers/server.ts';

/** What every browser has. */
const page = {
  ...{ fetch, URL, URLSearchParams, WebSocket, Blob, TextDecoder, TextEncoder, AbortController, AbortSignal, crypto },
  ...{ setTimeout, clearTimeout, performance, atob, btoa, Response, Headers, ReadableStream, queueMicrotask },
};

async function loadInPage(): Promise<typeof api> {
  const bundle = await rolldown({
    input: join(import.meta.dirname, '..', '..', '..', 'src', 'client', 'index.ts'),
    platform: 'browser',
    external: [/unix-transport/],
    logLevel: 'silent',
  });
  const { output } = await bundle.generate({ format: 'iife', name: 'cella' });
  const world = createContext({ ...page });
  runInContext(output[0].code, world);
  return runInContext('cella', world);
}

it('works in a page, with a token: values, streams, input, artifacts, and the events of others', async () => {
  await using server = await TestServer.start();
  const { connect, CellaError } = await loadInPage();
  const client = await connect({ url: server.url, token: server.token });
  const session = await client.open({ agentKey: 'page' });
  expect((await session.run('[2 ** 70, b"\\xff", float("inf")]')).value).toEqual([
    2n ** 70n,
    expect.objectContaining({ 0: 255, length: 1 }),
    Number.POSITIVE_INFINITY,
  ]);
  const runs = Array.from({ length: 12 }, (_, n) =>
    session.run(`print(input())\n${n}`, { onInput: () => `answer ${n}` }),
  );
  expect((await Promise.all(runs)).map(({ value, stdout }) => [value, stdout])).toEqual(
    runs.map((_, n) => [n, `answer ${n}\n`]),
  );
  async function* parts() {
    yield new Uint8Array([1, 2]);
    yield new Uint8Array([3]);
  }
  await session.artifacts.save('three', parts(), { type: 'bytes', mediaType: 'application/octet-stream' });
  expect((await session.artifacts.get('three')).size).toBe(3);
  for await (const event of session.events()) if (event.type === 'stdout' && event.text.includes('answer 11')) break;
  await expect(client.session('ses_0000000000000000')).rejects.toBeInstanceOf(CellaError);
  await session.close();
});
