/**
 * A process of its own that writes tools, artifacts, deps and events into the storage of a bootstrap config. It tells
 * what it did in lines of JSON, and waits for a line on stdin where a role says so.
 */

import { createInterface } from 'node:readline';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { dieBeforeStep } from './kill-between-steps.ts';
import { factsOf, PART_BYTES, partOf, textOf } from './namespace-data.ts';

const [, , role = '', config = '', mark = ''] = process.argv;
const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const word = async () => void (await lines.next());

const storage = await storageFromBootstrap(JSON.parse(config));

async function keep(version: number, parts: number): Promise<void> {
  await using writer = await storage.artifacts.begin('a');
  for (let part = 0; part < parts; part += 1) await writer.write(partOf(version));
  await writer.finish(factsOf(version));
}

const roles: Record<string, () => Promise<void>> = {
  /** Together with another process that does the same. */
  async writeTogether() {
    tell({ ready: true });
    await word();
    const numbers = Array.from({ length: 40 }, (_, index) => index);
    const [added, won, events] = await Promise.all([
      Promise.all(numbers.map((number) => storage.deps.add(`${mark}-${number}`))),
      Promise.all(numbers.map((number) => storage.tools.put(`tool${number}`, mark, { ifAbsent: true }))),
      Promise.all(numbers.map((number) => storage.events.append('a', [{ mark, number }]))),
    ]);
    tell({ added: added.filter(Boolean).length, won: numbers.filter((number) => won[number]), events });
  },

  /** One version after the other, of a tool and of an artifact with several chunks, until it is killed. */
  async replace() {
    for (let version = Number(mark); ; version += 1) {
      await storage.tools.put('t', textOf(version));
      await keep(version, 10 + (version % 10));
      tell({ finished: version });
    }
  },

  /** Dies before the step that the mark counts. */
  async replaceStepwise() {
    await keep(1, 1);
    await storage.tools.put('t', textOf(1));
    const steps = await dieBeforeStep(Number(mark));
    await keep(2, 1);
    await storage.tools.put('t', textOf(2));
    tell({ steps });
  },

  async hold() {
    await storage.locks.acquire('a');
    const writer = await storage.artifacts.begin('a');
    for (let part = 0; part < 20; part += 1) await writer.write(partOf(1));
    tell({ holding: process.pid });
    await word();
  },

  /** Writes and reads 100 MB, and tells how much more memory it had in between. */
  async large() {
    await keep(1, 3);
    const before = process.memoryUsage.rss();
    let most = before;
    setFlagsFromString('--expose-gc');
    const collect: () => void = runInNewContext('gc');
    // What is only waiting to be collected does not count.
    const look = (part: number) => {
      if (part % 5 === 0) collect();
      most = Math.max(most, process.memoryUsage.rss());
    };
    await using writer = await storage.artifacts.begin('large');
    for (let part = 0; part < 100; part += 1) {
      await writer.write(partOf(part));
      look(part);
    }
    await writer.finish(factsOf(1));
    await using reader = await storage.artifacts.open('large');
    let same = 0;
    for (let part = 0; part < 100; part += 1) {
      const bytes = await reader?.read(part * PART_BYTES, PART_BYTES);
      if (bytes && Buffer.compare(bytes, partOf(part)) === 0) same += 1;
      look(part);
    }
    tell({ same, grownMb: Math.round((most - before) / 1e6) });
  },
};

await roles[role]?.();
await storage.close();
// An open stdin would keep the process.
process.exit();
