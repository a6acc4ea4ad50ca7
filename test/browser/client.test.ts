/** The client in a real browser, in a page of the server: with the cookie of a login, and over connections that break. */

import { afterAll, beforeAll, expect, it } from 'vitest';
import type * as api from '../../src/client/index.ts';
import { BrowserTest, within } from './browser-test.ts';

/** What the scripts of the page find there. */
declare const cella: typeof api;
declare const location: { readonly origin: string };
declare const cut: () => Promise<void>;
declare const restart: () => Promise<void>;

let browserTest: BrowserTest;
beforeAll(async () => {
  browserTest = await BrowserTest.start();
});
afterAll(() => browserTest?.[Symbol.asyncDispose]());

it('works with only the cookie: values, input, streams, bytes, a terminal, and error codes', async () => {
  const page = await browserTest.loggedIn();
  const opened: string[] = [];
  page.on('Network.webSocketCreated', ({ url }) => opened.push(String(url)));
  const seen = await within(page, async () => {
    const client = await cella.connect({ url: location.origin });
    const session = await client.open({ agentKey: 'browser' });
    const { value } = await session.run('[2 ** 70, b"\\xff", float("inf"), "é"]');
    const asked = await session.run('print(input("name? "))', { onInput: () => 'Ada' });
    const types: string[] = [];
    for await (const { type } of session.stream('print(1)\nimport sys; print(2, file=sys.stderr)\n3')) types.push(type);
    async function* bytes() {
      yield new Uint8Array([1, 2]);
      yield new Uint8Array([3]);
    }
    await session.artifacts.save('three', bytes(), { type: 'bytes', mediaType: 'application/octet-stream' });
    const terminal = await session.terminal({ argv: ['cat'] });
    await terminal.write('typed\n');
    let shown = '';
    for await (const chunk of terminal.output) {
      shown += new TextDecoder().decode(chunk);
      if (shown.includes('typed')) break;
    }
    await terminal.close();
    const { size } = await session.artifacts.get('three');
    const { code } = await client.session('ses_0000000000000000').catch((error) => error);
    const values = (value as unknown[]).map((one) => (one instanceof Uint8Array ? [...one] : String(one)));
    return { user: client.me.userName, values, stdout: asked.stdout, types, size, shown, code };
  });
  expect(seen).toEqual({
    user: 'local',
    values: [String(2n ** 70n), [255], 'Infinity', 'é'],
    stdout: 'Ada\n',
    types: ['stdout', 'stderr', 'result'],
    size: 3,
    shown: expect.stringContaining('typed'),
    code: 'NOT_FOUND',
  });
  expect(opened.map((url) => new URL(url).pathname)).toEqual([expect.stringMatching(/\/terminal$/)]);
});

it('gets each event exactly once, even if connections break in the middle of a stream', async () => {
  const page = await browserTest.loggedIn();
  await page.offer('cut', () => browserTest.proxy.cut());
  const after: number[] = [];
  page.on('Network.webSocketCreated', ({ url }) => after.push(Number(new URL(String(url)).searchParams.get('after'))));
  const seen = await within(page, async () => {
    const session = await (await cella.connect({ url: location.origin })).open({ agentKey: 'cut' });
    const over = new AbortController();
    const cuts: Promise<void>[] = [];
    const numbers: number[] = [];
    let followed = '';
    const following = (async () => {
      for await (const event of session.events({ signal: over.signal })) {
        if (!('seq' in event)) continue;
        numbers.push(event.seq);
        if (event.type === 'result') over.abort();
        if (event.type !== 'stdout') continue;
        followed += event.text;
        if (/[05]\n$/.test(event.text)) cuts.push(cut());
      }
    })();
    const code =
      'import time\nfor part in range(3):\n  for n in range(20):\n    print(n, flush=True); time.sleep(0.01)\n  input()';
    let streamed = '';
    const result = await session.run(code, {
      onEvent: (event) => {
        if (event.type === 'stdout') streamed += event.text;
      },
      // No part begins before what came of the last was cut off.
      onInput: async () => {
        await Promise.all(cuts);
        return '';
      },
    });
    await following;
    return { numbers, followed, streamed, stdout: result.stdout, status: result.status, cuts: cuts.length };
  });
  const output = Array.from({ length: 60 }, (_, n) => `${n % 20}\n`).join('');
  expect(seen).toMatchObject({ status: 'ok', stdout: output, streamed: output, followed: output });
  expect(seen.numbers).toEqual(seen.numbers.map((_, n) => n + 1));
  expect(seen.cuts).toBeGreaterThan(3);
  // It was one WebSocket after the other, each from where the last had come to.
  expect(after[0]).toBe(0);
  expect(after.length).toBeGreaterThan(3);
  expect(new Set(after).size).toBeGreaterThan(3);
  expect(after).toEqual(after.toSorted((one, other) => one - other));
});

it('keeps its login, its session and its events when the server restarts', async () => {
  const page = await browserTest.loggedIn();
  await page.offer('restart', () => browserTest.restart());
  const seen = await within(page, async () => {
    const session = await (await cella.connect({ url: location.origin })).open({ agentKey: 'restarted' });
    const numbers: number[] = [];
    const over = new AbortController();
    const following = (async () => {
      for await (const event of session.events({ signal: over.signal })) {
        if ('seq' in event) numbers.push(event.seq);
        if (event.type === 'stdout' && event.text.includes('last')) over.abort();
      }
    })();
    await session.run('kept = 5');
    await restart();
    const { value } = await session.run('print("last")\nkept');
    await following;
    return { value, numbers };
  });
  expect(seen.value).toBe(5);
  expect(seen.numbers).toEqual(seen.numbers.map((_, n) => n + 1));
});
