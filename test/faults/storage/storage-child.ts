/**
 * A process of its own that uses a storage until it is done or killed. It tells what it did in lines of JSON, and waits
 * for a line on stdin where a role says so.
 */

import { randomBytes, randomInt } from 'node:crypto';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CellaError } from '../../../src/protocol/errors.ts';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { manifest, segmentOf } from './checkpoint-data.ts';
import { dieBeforeStep } from './kill-between-steps.ts';

const [, , role = '', path = '', mark = ''] = process.argv;
const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const word = async () => void (await lines.next());

const failure = (promise: Promise<unknown>): Promise<object> =>
  promise.then(
    () => ({ code: 'ok' }),
    (error: unknown) => {
      if (!(error instanceof CellaError)) throw error;
      const { code, message, details } = error;
      return { code, message, details };
    },
  );

async function saveOne(storage: FileStorage, id: string, sizes: readonly number[]): Promise<void> {
  const segments = sizes.map((bytes) => segmentOf(id, bytes));
  await using writer = await storage.checkpoints.begin('a');
  for (const bytes of segments) await writer.write(bytes);
  await writer.finish(manifest(id, segments));
}

const roles: Record<string, () => Promise<void>> = {
  /** Saves checkpoint after checkpoint, small ones and some that have several chunks. */
  async save() {
    const storage = await FileStorage.open(path);
    tell({ ready: true });
    for (let count = 1; ; count += 1) {
      const id = `${mark}-${count}`;
      const large = count % 4 === 0 ? [9_000_000] : [];
      await saveOne(storage, id, [randomInt(1, 500_000), ...large, randomInt(1, 5000)]);
      tell({ finished: id });
    }
  },

  /** Saves one, or deletes one, and dies before the step that the mark counts. */
  async saveStepwise() {
    const storage = await FileStorage.open(path);
    await saveOne(storage, 'before', [1000]);
    const steps = await dieBeforeStep(Number(mark));
    await saveOne(storage, 'after', [9_000_000, 10]);
    tell({ steps });
  },

  async deleteStepwise() {
    const storage = await FileStorage.open(path);
    await saveOne(storage, 'before', [1000]);
    await saveOne(storage, 'after', [9_000_000, 10]);
    const steps = await dieBeforeStep(Number(mark));
    await storage.checkpoints.delete('a', 'after');
    tell({ steps });
  },

  /** Appends again and again, one to three events each time, and tells the number that was acknowledged. */
  async append() {
    const storage = await FileStorage.open(path);
    tell({ ready: true });
    for (let count = 0; ; ) {
      const events = Array.from({ length: randomInt(1, 4) }, (_, index) => ({ mark, count: count + index + 1 }));
      count += events.length;
      tell({ acknowledged: await storage.events.append('a', events), count });
    }
  },

  /** Counts a document up again and again, by what it has read of it, and tells the count that was acknowledged. */
  async count() {
    const { documents } = await FileStorage.open(path);
    tell({ ready: true });
    for (;;) {
      const seen = await documents.get('counts', 'a');
      const count = Number(seen?.value ?? 0) + 1;
      const put = await documents.put('counts', 'a', count, { ifRevision: seen?.revision ?? 0 });
      if (put !== undefined) tell({ acknowledged: count });
    }
  },

  /** The first start of a server, which dies before the step that the mark counts. */
  async startStepwise() {
    const storage = await FileStorage.open(path);
    const steps = await dieBeforeStep(Number(mark));
    await openAccess({ storage, dataDir: path });
    tell({ steps });
    await storage.close();
  },

  async appendTogether() {
    const storage = await FileStorage.open(path);
    tell({ ready: true });
    await word();
    const pending = Array.from({ length: 150 }, (_, index) => storage.events.append('a', [{ mark, count: index + 1 }]));
    tell({ numbers: await Promise.all(pending) });
    await storage.close();
  },

  /** Holds the lock until it is killed, with an unfinished checkpoint beside it. */
  async hold() {
    const storage = await FileStorage.open(path);
    await storage.locks.acquire('a');
    const writer = await storage.checkpoints.begin('a');
    await writer.write(randomBytes(100_000));
    tell({ holding: process.pid });
    await word();
    await word();
  },

  async race() {
    const storage = await FileStorage.open(path);
    tell({ ready: true });
    await word();
    tell({ race: await failure(storage.locks.acquire('a')) });
    await word();
    await storage.close();
  },

  /** On a disk of 20 MB. */
  async fill() {
    const storage = await FileStorage.open(path);
    await saveOne(storage, 'kept', [1_000_000]);
    await storage.events.append('a', [1, 2, 3]);
    const tooLarge = await failure(saveOne(storage, 'large', [30_000_000]));
    const left = readdirSync(join(path, 'checkpoints', '.unfinished')).length;
    await saveOne(storage, 'fits', [1_000_000]);
    const filler = join(path, 'filler');
    const full = await failure(
      (async () => {
        for (let size = 1_000_000; size > 1; size = Math.floor(size / 2)) {
          try {
            for (;;) writeFileSync(filler, randomBytes(size), { flag: 'a' });
          } catch {} // smaller and smaller, until nothing fits
        }
        for (;;) await storage.events.append('a', ['x'.repeat(100_000)]);
      })(),
    );
    const last = await storage.events.last('a');
    const small = await failure(saveOne(storage, 'small', [100_000]));
    rmSync(filler);
    const next = await storage.events.append('a', ['after']);
    const seqs: number[] = [];
    for await (const { seq } of storage.events.read('a')) seqs.push(seq);
    await saveOne(storage, 'later', [1_000_000]);
    const ids = (await storage.checkpoints.list('a')).map(({ id }) => id);
    const damaged = await storage.checkpoints.damaged('a');
    tell({ tooLarge, left, full, small, last, next, seqs, ids, damaged });
    await storage.close();
  },

  /** On a file system that is read-only, or as a user who may not. */
  async refused() {
    if (mark === 'nobody' && process.getuid?.() === 0) process.seteuid?.(65_534);
    const opened = await failure(FileStorage.open(join(path, 'fresh')));
    const storage = await FileStorage.open(join(path, 'old')).catch(() => undefined);
    const ids = (await storage?.checkpoints.list('a'))?.map(({ id }) => id);
    const begun = storage && (await failure(storage.checkpoints.begin('a')));
    const appended = storage && (await failure(storage.events.append('a', [1])));
    const locked = storage && (await failure(storage.locks.acquire('a')));
    tell({ opened, ids, begun, appended, locked });
  },
};

await roles[role]?.();
// An open stdin would keep the process.
process.exit();
