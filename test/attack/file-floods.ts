/** Requests for files in numbers that nobody needs, while somebody else works with theirs. */

import { request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';
import { LONG_LINKS } from '../server/files/hostile.ts';
import { everywhere, type Row } from './row.ts';
import type { World } from './world.ts';

const FILES = 'File requests of one user do not delay those of others.';
/** A busy machine is slow; whoever waits behind a flood waits longer. */
const MOST_WAIT_MS = 20_000;

/** Does all that Victoria does with files, until the attack is over. */
async function whileServed({ victoria }: World, attack: Promise<unknown>): Promise<void> {
  let over = false;
  const ended = attack.finally(() => {
    over = true;
  });
  ended.catch(() => {}); // it is awaited below
  do {
    for (const [what, body] of [
      ['PUT ~/files/content?path=mine', 'text'],
      ['GET ~/files/content?path=mine', undefined],
      ['GET ~/files?path=', undefined],
      ['POST ~/files/move', { from: 'mine', to: 'moved', replace: true }],
      ['DELETE ~/files?path=moved', undefined],
    ] as const) {
      const reply = await victoria.call(what, { body, signal: AbortSignal.timeout(MOST_WAIT_MS) });
      expect([what, reply.status < 300]).toEqual([what, true]);
    }
    await wait(50);
  } while (!over);
  await ended;
}

/** As many as a listing holds. */
const fill = (name: string) => `
import os
os.makedirs(b'flood', exist_ok=True)
for number in range(10_000):
    os.close(os.open(b'flood/' + ${name} + b'%05d' % number, os.O_CREAT))`;

function listings(name: string, what: string, quick = false): Row {
  return {
    name: `lists 10,000 of ${what}, 200 times at once`,
    promise: FILES,
    on: everywhere,
    quick,
    attempt: async (world) => {
      const { mallory } = world;
      await mallory.value(fill(name), { timeoutMs: 60_000 });
      const list = async () => {
        const { status, json, text } = await mallory.call('GET ~/files?path=flood');
        // What is not answered is refused in words.
        expect([200, 429]).toContain(status);
        if (status === 429) expect(json.error.code).toBe('RATE_LIMITED');
        else expect(text.length).toBeLessThan(5_000_000);
        world.seen.length = 0;
      };
      await whileServed(world, Promise.all(Array.from({ length: 200 }, list)));
      await mallory.call('DELETE ~/files?path=flood&recursive=true');
    },
  };
}

/** Begins an upload and sends no more of it; gives how it was answered, or 0 where it is still open when `over` aborts. */
function upload({ mallory, url }: World, path: string, over: AbortSignal): Promise<number> {
  return new Promise((resolve) => {
    const asked = request(
      new URL(`/v1/sessions/${mallory.session}/files/content?path=${path}`, url),
      { method: 'PUT', headers: { authorization: `Bearer ${mallory.token}` }, signal: over, agent: false },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    asked.on('error', () => resolve(0)); // it was cut below
    asked.write('begun');
  });
}

const uploads: Row = {
  name: 'begins 400 uploads and ends none of them',
  promise: FILES,
  on: everywhere,
  attempt: async (world) => {
    const over = new AbortController();
    const answers: number[] = [];
    const begun = Array.from({ length: 400 }, async (_, number) => {
      answers.push(await upload(world, `slow-${number}`, over.signal));
    });
    const refused = async () => {
      while (!answers.includes(429)) await wait(50);
    };
    await whileServed(world, refused());
    over.abort();
    await Promise.all(begun);
    expect(new Set(answers)).toEqual(new Set([429, 0]));
    // Nothing of them stays.
    const left = async () =>
      await world.mallory.value("[n for n in __import__('os').listdir('.') if n.endswith('.part')]");
    await expect.poll(left, { timeout: 10_000 }).toEqual([]);
  },
};

const links: Row = {
  name: 'follows 30 links of 4 KB each below 1,900 folders, 8 times at once',
  promise: FILES,
  on: everywhere,
  attempt: async (world) => {
    const { mallory } = world;
    await mallory.value(`import os, shutil
shutil.rmtree("longlinks", ignore_errors=True)
os.mkdir("longlinks")
os.chdir("longlinks")
${LONG_LINKS}
os.chdir("..")`);
    const follow = async (_: unknown, number: number) => {
      const { status, json } = await mallory.call(`GET ~/files?path=longlinks/${number % 2 ? 'dots0' : 'deep0'}`);
      expect([status, json.error.code]).toEqual([400, 'INVALID_REQUEST']);
    };
    await whileServed(world, Promise.all(Array.from({ length: 8 }, follow)));
    expect((await mallory.call('DELETE ~/files?path=longlinks&recursive=true')).status).toBe(204);
  },
};

export const fileFloodRows: readonly Row[] = [
  listings("b'\\xff' * 250", 'the longest names', true),
  listings("b'\\x01' * 250", 'names that JSON writes six times as long'),
  uploads,
  links,
];
