/** A data folder that was damaged between two starts of a server: refused with the reason, or all that can be read is there. */

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Cella } from '../e2e/command.ts';
import { checkEndings, readLog } from '../soak/log.ts';
import { databaseOf, pythonFlags, run, used } from '../support/fault-suite.ts';
import { Served } from '../support/served.ts';

const refusedAtStart: readonly (readonly [what: string, harm: (path: string) => void])[] = [
  ['cut in half', (path) => truncateSync(path, Math.trunc(statSync(path).size / 2))],
  ['cut to 5000 bytes', (path) => truncateSync(path, 5000)],
  ['garbage', (path) => writeFileSync(path, Buffer.alloc(100_000, 7))],
  [
    'a folder',
    (path) => {
      rmSync(path);
      mkdirSync(path);
    },
  ],
  [
    'of a later version',
    (path) => {
      // The field `user_version` in the header of a database.
      writeSync(openSync(path, 'r+'), Buffer.from([0, 0, 0, 99]), 0, 4, 60);
    },
  ],
];

test.each(refusedAtStart)('a database that is %s is refused at the start, with the reason', async (_what, harm) => {
  using cella = new Cella();
  await used(cella);
  for (const ending of ['-wal', '-shm']) rmSync(databaseOf(cella) + ending, { force: true });
  harm(databaseOf(cella));
  const { code, err } = await cella.run(['serve', '--port', '0', ...pythonFlags]);
  expect(code).toBe(1);
  expect(err).toMatch(/Cannot .*cella\.db: /);
  expect(err).not.toContain('    at ');
});

test('an older copy of the database goes on from where it was, with the newer save', async () => {
  using cella = new Cella();
  const id = await used(cella);
  copyFileSync(databaseOf(cella), join(cella.temporary, 'older'));
  {
    await using served = await Served.start(cella, pythonFlags);
    await run(served, id, 'kept = 2');
  }
  copyFileSync(join(cella.temporary, 'older'), databaseOf(cella));
  await using served = await Served.start(cella, pythonFlags);
  expect(await run(served, id, 'kept')).toMatchObject({ value: 2 });
  checkEndings(id, await readLog(served, id));
});

const configs: readonly (readonly [what: string, make: (path: string) => void])[] = [
  ['garbage', (path) => writeFileSync(path, Buffer.alloc(5000, 0x9f))],
  ['a list', (path) => writeFileSync(path, '- a\n- b\n')],
  ['an unknown name', (path) => writeFileSync(path, 'no-such-setting: 1\n')],
  ['a number out of range', (path) => writeFileSync(path, 'max-kernels: -5\n')],
  ['no number', (path) => writeFileSync(path, 'max-kernels: .nan\n')],
  ['aliases of aliases', (path) => writeFileSync(path, bomb())],
  ['a folder', (path) => mkdirSync(path)],
  ['a pipe', (path) => void spawnSync('mkfifo', [path])],
];

function bomb(): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'];
  for (let n = 1; n < 12; n++)
    lines.push(
      `a${n}: &a${n} [${Array(9)
        .fill(`*a${n - 1}`)
        .join(', ')}]`,
    );
  return `${lines.join('\n')}\n`;
}

test('a config file that cannot be used is refused with exit code 2, whatever it is', async () => {
  using cella = new Cella();
  const path = join(cella.dataDir, 'config.yaml');
  await Promise.all(
    configs.map(async ([what, make]) => {
      using own = new Cella();
      make(join(own.dataDir, 'config.yaml'));
      const { code, err } = await own.run(['serve', '--port', '0', ...pythonFlags]);
      expect([what, code]).toEqual([what, 2]);
      expect(err).not.toContain('    at ');
    }),
  );
  expect(existsSync(path)).toBe(false);
});

test('an admin token that was deleted or damaged does not stop a start', async () => {
  using cella = new Cella();
  const id = await used(cella);
  const path = join(cella.dataDir, 'admin-token');
  for (const harm of [() => rmSync(path), () => writeFileSync(path, 'garbage')]) {
    harm();
    await using served = await Served.start(cella, pythonFlags);
    expect(await run(served, id, 'kept')).toMatchObject({ value: 1 });
  }
});

test('of several servers on one folder that start at once, one serves', async () => {
  using cella = new Cella();
  chmodSync(cella.dataDir, 0o700);
  const all = Array.from({ length: 5 }, () => cella.start(['serve', '--port', '0', ...pythonFlags]));
  const outcomes = await Promise.all(
    all.map((one) =>
      one.says('The first cell').then(
        () => 'serves',
        () => /Another server runs/.exec(one.err)?.[0] ?? one.err,
      ),
    ),
  );
  expect(outcomes.filter((outcome) => outcome === 'serves')).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === 'Another server runs')).toHaveLength(4);
  const serving = all[outcomes.indexOf('serves')];
  serving?.child.kill('SIGTERM');
  expect(await serving?.ended).toBe(0);
  expect(readdirSync(cella.dataDir)).not.toContain('daemon.json');
});
