/** One user floods the server with long listings; another one's files are reached all the same, and no event loop stands still. */

import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';
import { Server } from '../stalls/rows.ts';
import { LONG_LINKS } from './hostile.ts';

/** As many as a listing holds, with names that are as long as names can be, and no text. */
const FILL = `
import os
os.makedirs(b'many', exist_ok=True)
for number in range(10_000):
    os.close(os.open(b'many/' + b'\\xff' * 250 + b'%05d' % number, os.O_CREAT))
${LONG_LINKS}
chain("long", here + "/", "d" + "/d" * 1000, "/../d", 2)`;
const AT_ONCE = 200;

interface Person {
  readonly token: string;
  readonly files: string;
}

export function fileFloods(): void {
  let server: Server;
  let mallory: Person;
  let marvin: Person;
  let victoria: Person;

  const person = async (name: string): Promise<Person> => {
    await server.json('POST /v1/users', server.token, { name, role: 'member' });
    const { token } = await server.json<{ token: string }>('POST /v1/tokens', server.token, { name: 't', user: name });
    const { id } = await server.json<{ id: string }>('POST /v1/sessions', token, { agentKey: 'own' });
    const code = name === 'victoria' ? 'open("diary", "w").write("x")' : FILL;
    const { status } = await server.json<{ status: string }>(`POST /v1/sessions/${id}/execute`, token, { code });
    expect(status).toBe('ok');
    return { token, files: `/v1/sessions/${id}/files` };
  };
  beforeAll(async () => {
    server = await Server.start(await scratchFolder());
    [mallory, marvin] = [await person('mallory'), await person('marvin')];
    victoria = await person('victoria');
  }, 120_000);
  afterAll(() => server?.end());

  const list = () => server.discard('GET', `${mallory.files}?path=many`, mallory.token);

  /** Each request that a person makes with files, one after the other; gives how long the longest took. */
  const work = async (): Promise<number> => {
    let longestMs = 0;
    const { token, files } = victoria;
    for (const [method, path, body] of [
      ['PUT', '/content?path=new', 'text'],
      ['GET', '/content?path=new'],
      ['GET', '?path='],
      ['POST', '/folders', { path: 'folder' }],
      ['POST', '/move', { from: 'new', to: 'folder/moved', replace: true }],
      ['DELETE', '?path=folder&recursive=true'],
    ] as const) {
      const begun = performance.now();
      const status = await server.discard(method, `${files}${path}`, token, body);
      expect([200, 201, 204], `${method} ${path}`).toContain(status);
      longestMs = Math.max(longestMs, performance.now() - begun);
    }
    return longestMs;
  };

  it('a listing of the longest names stops no event loop', { timeout: 120_000 }, async () => {
    await expectNoStall(async () => expect(await list()).toBe(200), serverLoop(server.url, server.pid));
  });

  it('a flood of listings stops no event loop', { timeout: 300_000 }, async () => {
    const flood = () => Promise.all(Array.from({ length: AT_ONCE }, list));
    await expectNoStall(flood, serverLoop(server.url, server.pid));
  });

  it('links of many names stop no event loop', { timeout: 120_000 }, async () => {
    const follow = async () => {
      for (const [link, status] of [
        ['dots0', 400],
        ['deep0', 400],
        ['long0', 200],
      ] as const) {
        expect(await server.discard('GET', `${mallory.files}?path=${link}`, mallory.token)).toBe(status);
      }
    };
    await expectNoStall(follow, serverLoop(server.url, server.pid));
  });

  /** While so many go on asking: each is answered, or refused at once, and nobody else notices. */
  const expectServed = async (atOnce: number, ask: (number: number) => Promise<number>) => {
    const quietMs = Math.max(await work(), await work());
    let over = false;
    const statuses: number[] = [];
    const flood = async (_: unknown, number: number) => {
      while (!over) {
        statuses.push(await ask(number));
        // Those who do not even wait after a refusal are for the limit of requests a second, which this server is without.
        if (statuses.at(-1) === 429) await wait(500);
      }
    };
    const floods = Array.from({ length: atOnce }, flood);
    const seenMs: number[] = [];
    for (let round = 0; round < 6; round++) seenMs.push(await work());
    over = true;
    await Promise.all(floods);
    // A machine that is busy with something else is slow; behind the flood it was half a minute, and then an error.
    const usualMs = seenMs.toSorted((one, other) => one - other)[4];
    expect(usualMs, `the wait of another user in ms; without a flood it was ${quietMs}`).toBeLessThan(
      5000 + 5 * quietMs,
    );
    return new Set(statuses);
  };

  it('a flood of listings does not delay the files of other users', { timeout: 300_000 }, async () => {
    // What is too much is refused at once, and what is not is answered.
    expect(await expectServed(AT_ONCE, list)).toEqual(new Set([200, 429]));
  });

  it('every kind of file request waits in the queue of its user, and is refused if that is full', {
    timeout: 300_000,
  }, async () => {
    const { token, files } = mallory;
    expect(await server.discard('PUT', `${files}/content?path=one`, token, 'text')).toBe(200);
    for (const [method, path, body] of [
      ['GET', '/content?path=one'],
      ['GET', '?path=x'],
      ['PUT', '/content?path=new', 'text'],
      ['POST', '/folders', { path: 'folder' }],
      ['POST', '/move', { from: 'new', to: 'one', replace: true }],
      ['DELETE', '?path=new'],
    ] as const) {
      const full = Promise.withResolvers<void>();
      const listings = Array.from({ length: AT_ONCE }, async () => {
        if ((await list()) === 429) full.resolve();
      });
      await full.promise;
      const ask = () => server.discard(method, `${files}${path}`, token, body);
      const statuses = await Promise.all(Array.from({ length: 20 }, ask));
      expect(statuses, `${method} ${path}`).toContain(429);
      await Promise.all(listings);
    }
  });

  it('links of many names of two users do not delay the files of others', { timeout: 300_000 }, async () => {
    const follow = async (number: number) => {
      const { files, token } = number % 2 ? mallory : marvin;
      return await server.discard('GET', `${files}?path=${number % 4 < 2 ? 'long0' : 'deep0'}`, token);
    };
    expect(await expectServed(16, follow)).toEqual(new Set([200, 400]));
  });
}
