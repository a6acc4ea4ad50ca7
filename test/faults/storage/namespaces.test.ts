/** Tools, artifacts, deps and events of both storages, with several processes, with kills, and with much data. */

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { BootstrapConfig, Storage } from '../../../src/storage/contract.ts';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { collect } from '../../contract/storage/samples.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { Child, scratch } from './child-processes.ts';
import { textOf, wholeArtifact, wholeText } from './namespace-data.ts';

let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis?.remove());

let prefixes = 0;
const places: [string, () => BootstrapConfig][] = [
  ['file', () => ({ type: 'file', path: join(scratch(), 'data') })],
  [
    'redis',
    () => {
      prefixes += 1;
      return { type: 'redis', url: redis.url, prefix: `p${prefixes}` };
    },
  ],
];

async function opened(config: BootstrapConfig): Promise<Storage> {
  const storage = await storageFromBootstrap(config);
  onTestFinished(() => storage.close());
  return storage;
}

describe.each(places)('%s storage', (_name, place) => {
  it('loses nothing if two processes write at once', async () => {
    const config = place();
    const children = ['one', 'two', 'three'].map((mark) => Child.on(config, 'writeTogether', mark));
    for (const child of children) expect(await child.next()).toEqual({ ready: true });
    for (const child of children) child.go();
    const told = await Promise.all(children.map((child) => child.next()));
    const storage = await opened(config);
    expect(await storage.deps.list()).toHaveLength(120);
    expect(told.map(({ added }) => added)).toEqual([40, 40, 40]);
    // Each name has one winner, and it is the winner's text that is there.
    const texts = new Map((await storage.tools.list()).map(({ name, text }) => [name, text]));
    const winners = told.flatMap(({ won }, index) =>
      (won as number[]).map((number) => [`tool${number}`, ['one', 'two', 'three'][index]] as const),
    );
    expect(winners).toHaveLength(40);
    expect(new Map(winners.toSorted())).toEqual(new Map([...texts].toSorted()));
    const events = await collect(storage.events.read('a'));
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 120 }, (_, index) => index + 1));
    expect(new Set(events.map(({ event }) => JSON.stringify(event))).size).toBe(120);
  });

  it('keeps the old or the new version if a writer is killed', { timeout: 120_000 }, async () => {
    const config = place();
    const storage = await opened(config);
    let known = 0;
    for (let round = 0; round < 8; round += 1) {
      const child = Child.on(config, 'replace', String(known + 1));
      const { finished } = await child.next();
      // In the middle of whatever comes next.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 60));
      await child.kill();
      const found = [await wholeText(storage), await wholeArtifact(storage)];
      for (const version of found) expect(version).toBeGreaterThanOrEqual(Number(finished));
      known = Math.max(...found);
    }
    expect(await storage.tools.put('t', textOf(1))).toBe(true);
    expect(await wholeText(storage)).toBe(1);
  });

  it('stores 100 MB without holding them in memory', { timeout: 120_000 }, async () => {
    const told = await Child.on(place(), 'large').next();
    expect(told.same).toBe(100);
    expect(told.grownMb).toBeLessThan(50);
  });
});
