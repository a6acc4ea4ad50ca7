/** A data folder that was damaged between two starts of a server: refused with the reason, or all that can be read is there. */

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { checkEndings, readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { CheckedSession, databaseOf, pythonFlags, run, used } from './checked-session.ts';

/** Changes so many bytes, from `begin` to the end, in equal steps. */
function flip(path: string, count: number, begin: number): void {
  const bytes = readFileSync(path);
  for (let n = 0; n < count; n++) {
    const place = begin + Math.trunc(((bytes.length - begin) * (n + 0.5)) / count);
    bytes[place] = (bytes[place] ?? 0) ^ 0xff;
  }
  writeFileSync(path, bytes);
}

const refusedAtStart: readonly (readonly [what: string, harm: (path: string) => void])[] = [
  ['cut in half', (path) => truncateSync(path, Math.trunc(statSync(path).size / 2))],
  ['cut to 5000 bytes', (path) => truncateSync(path, 5000)],
  ['cut by its last page', (path) => truncateSync(path, statSync(path).size - 4096)],
  ['changed in two thousand places', (path) => flip(path, 2000, 0)],
  ['garbage', (path) => writeFileSync(path, Buffer.alloc(100_000, 7))],
  [
    'a folder',
    (path) => {
      rmSync(path);
      mkdirSync(path);
    },
  ],
  ['beside a folder in place of its log', (path) => mkdirSync(`${path}-wal`)],
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

const survived: readonly (readonly [what: string, harm: (path: string) => void])[] = [
  // Not in its header, which is refused.
  ['changed in twenty places', (path) => flip(path, 20, 4096)],
  [
    'without one of its tables',
    (path) => {
      using database = new DatabaseSync(path);
      database.exec('DROP TABLE documents');
    },
  ],
  ['readable by nobody', (path) => chmodSync(path, 0)],
  ['beside a log of garbage', (path) => writeFileSync(`${path}-wal`, Buffer.alloc(50_000, 7))],
  ['beside an index of garbage', (path) => writeFileSync(`${path}-shm`, Buffer.alloc(32_768, 7))],
];

test.each(survived)(
  'a database that is %s is refused with a reason, or everything readable is there',
  async (_what, harm) => {
    using cella = new Cella();
    const id = await used(cella);
    harm(databaseOf(cella));
    const starting = cella.start(['serve', '--port', '0', ...pythonFlags]);
    const starts = await starting.says('The first cell').then(
      () => true,
      () => false,
    );
    if (starts) {
      const url = / at (https?:\S+)/.exec(starting.out)?.[1];
      const token = readFileSync(join(cella.dataDir, 'admin-token'), 'utf8').trim();
      for (const [method, path] of [
        ['GET', '/v1/sessions'],
        ['GET', `/v1/sessions/${id}/events`],
        ['POST', `/v1/sessions/${id}/execute`],
      ]) {
        const headers = { authorization: `Bearer ${token}` };
        const init = method === 'POST' ? { method, headers, body: JSON.stringify({ code: 'kept' }) } : { headers };
        const answer = await (await fetch(new URL(path ?? '', url), init)).text();
        expect(answer).not.toContain('INTERNAL');
        if (method === 'POST' && answer.includes('"status":"ok"'))
          expect(JSON.parse(answer)).toMatchObject({ value: 1 });
      }
      starting.child.kill('SIGTERM');
    }
    const code = await starting.ended;
    expect(code, starting.err).toBeOneOf(starts ? [0, 1] : [1]);
    if (code !== 0) expect(starting.err).toMatch(/Cannot .*cella\.db|could not save everything/);
    expect(starting.err.replaceAll(/^\{.*$/gm, '')).not.toContain('    at ');
  },
);

/** All files below a folder. */
const filesBelow = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

test('saves that were changed, emptied, cut or replaced restore the saved value or list it as lost', async () => {
  using cella = new Cella();
  const sessions: CheckedSession[] = [];
  {
    await using served = await Served.start(cella, pythonFlags);
    for (let n = 0; n < 12; n++) {
      const session = await CheckedSession.of(served, `damaged-${n}`);
      await session.run(`kept = 'value ${n} ' * 200; other = ${n}`);
      await session.call('POST', '/hibernate');
      sessions.push(session);
    }
  }
  const files = filesBelow(join(cella.dataDir, 'checkpoints'));
  expect(files.length).toBeGreaterThan(sessions.length);
  for (const [n, path] of files.entries()) {
    const bytes = readFileSync(path);
    const place = (n * 37) % bytes.length;
    bytes[place] = (bytes[place] ?? 0) ^ (1 << (n % 8));
    if (n % 6 === 4) truncateSync(path, n % 12 === 4 ? 0 : Math.trunc(bytes.length / 2));
    else if (n % 6 === 5) {
      rmSync(path);
      spawnSync('mkfifo', [path]);
    } else if (n % 2 === 0) writeFileSync(path, bytes);
  }
  await using served = await Served.start(cella, pythonFlags);
  const outcomes = new Set<string>();
  for (const [n, session] of sessions.map((one) => one.at(served)).entries()) {
    const { value, code, error } = await session.run('kept');
    outcomes.add(code ?? Object(error).name ?? 'value');
    if (error === undefined && code === undefined) expect(value).toBe(`value ${n} `.repeat(200));
    else expect(code ?? Object(error).name).toBeOneOf(['NameError', 'CHECKPOINT_DAMAGED']);
    expect(await session.run('6 * 7')).toMatchObject({ value: 42 });
    await session.check();
  }
  expect(outcomes.has('NameError')).toBe(true);
});

test('an older copy of the database works from its state on, with the newer save', async () => {
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

test('an invalid config file is refused with exit code 2, whatever is wrong with it', async () => {
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

test('a deleted or damaged admin token does not prevent a start', async () => {
  using cella = new Cella();
  const id = await used(cella);
  const path = join(cella.dataDir, 'admin-token');
  for (const harm of [() => rmSync(path), () => writeFileSync(path, 'garbage')]) {
    harm();
    await using served = await Served.start(cella, pythonFlags);
    expect(await run(served, id, 'kept')).toMatchObject({ value: 1 });
  }
});

test('if several servers start on one folder at once, one runs', async () => {
  using cella = new Cella();
  chmodSync(cella.dataDir, 0o700);
  const all = Array.from({ length: 6 }, () => cella.start(['serve', '--port', '0', ...pythonFlags]));
  const outcomes = await Promise.all(
    all.map((one) =>
      one.says('The first cell').then(
        () => 'serves',
        () => /Another server runs/.exec(one.err)?.[0] ?? one.err,
      ),
    ),
  );
  expect(outcomes.filter((outcome) => outcome === 'serves')).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === 'Another server runs')).toHaveLength(5);
  const serving = all[outcomes.indexOf('serves')];
  serving?.child.kill('SIGTERM');
  expect(await serving?.ended).toBe(0);
  expect(readdirSync(cella.dataDir)).not.toContain('daemon.json');
});
