/** Files of a server that disappear while it runs, or are empty when it starts: nothing is acknowledged into the void. */

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkEndings, readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { codeOf, databaseOf, endAsItCan, newSession, pythonFlags, run, used } from './checked-session.ts';

const lost: readonly (readonly [what: string, harm: (dataDir: string) => void])[] = [
  ['its write-ahead log is deleted', (dir) => rmSync(join(dir, 'cella.db-wal'))],
  [
    'its database is deleted',
    (dir) => {
      for (const ending of ['', '-wal', '-shm']) rmSync(join(dir, `cella.db${ending}`));
    },
  ],
  ['its folder is deleted', (dir) => rmSync(dir, { recursive: true })],
];

test.each(lost)('nothing is acknowledged after %s, and the server is not ready', async (_what, harm) => {
  using cella = new Cella();
  const served = await Served.start(cella, pythonFlags);
  const id = await newSession(served);
  await run(served, id, 'kept = 1');
  await served.ask('GET /ready');
  harm(cella.dataDir);
  expect(await codeOf(run(served, id, 'kept = 2'))).toBe('STORAGE_FAILED');
  expect(await codeOf(newSession(served, 'another'))).toBe('STORAGE_FAILED');
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('STORAGE_FAILED');
  await endAsItCan(served);
});

test('a folder that was moved away and back is complete, and nothing was created in its place', async () => {
  using cella = new Cella();
  await using served = await Served.start(cella, pythonFlags);
  const id = await newSession(served);
  await run(served, id, 'kept = 1');
  const elsewhere = `${cella.dataDir}-moved`;
  renameSync(cella.dataDir, elsewhere);
  expect(await codeOf(run(served, id, 'kept = 2'))).toBe('STORAGE_FAILED');
  expect(await codeOf(served.ask(`POST /v1/sessions/${id}/save`))).not.toBe('ok');
  expect(existsSync(cella.dataDir)).toBe(false);
  renameSync(elsewhere, cella.dataDir);
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('ok');
  await expect.poll(() => codeOf(run(served, id, 'kept = 3'))).toBe('ok');
  expect(await run(served, id, 'kept')).toMatchObject({ value: 3 });
  checkEndings(id, await readLog(served, id));
});

test('a server ends when another one has started in its place, and removes nothing of that one', async () => {
  using cella = new Cella();
  const first = await Served.start(cella, pythonFlags);
  await newSession(first);
  rmSync(cella.dataDir, { recursive: true });
  mkdirSync(cella.dataDir, { mode: 0o700 });
  await using second = await Served.start(cella, pythonFlags);
  const id = await newSession(second, 'new');
  expect(await first.started.ended).toBe(1);
  expect(first.started.err).toContain('it was deleted, moved or replaced');
  expect(await run(second, id, '6 * 7')).toMatchObject({ value: 42 });
  for (const name of ['daemon.json', 'daemon.sock', 'cella.db-wal']) {
    expect(existsSync(join(cella.dataDir, name))).toBe(true);
  }
  await second.kill();
  await using third = await Served.start(cella, pythonFlags);
  expect(await run(third, id, '6 * 7')).toMatchObject({ value: 42 });
});

test('an empty database next to agent folders is refused, and after it is moved away, a new one is created', async () => {
  using cella = new Cella();
  await used(cella);
  truncateSync(databaseOf(cella), 0);
  const token = readFileSync(join(cella.dataDir, 'admin-token'), 'utf8');
  const { code, err } = await cella.run(['serve', '--port', '0', ...pythonFlags]);
  expect(code).toBe(1);
  expect(err).toContain('it is empty');
  expect(readFileSync(join(cella.dataDir, 'admin-token'), 'utf8')).toBe(token);
  rmSync(databaseOf(cella));
  await using served = await Served.start(cella, pythonFlags);
  expect(await served.ask('GET /v1/sessions')).toMatchObject({ sessions: [] });
});

const unusable: readonly (readonly [what: string, harm: (database: string) => void])[] = [
  ['emptied', (database) => truncateSync(database, 0)],
  ['moved away', (database) => renameSync(database, `${database}-moved`)],
];

test.each(unusable)('`serve stop` waits for the process of a server whose database was %s', async (_what, harm) => {
  using cella = new Cella();
  const served = await Served.start(cella, [...pythonFlags, '--grace', '2']);
  const id = await newSession(served);
  const running = run(served, id, 'import time\ntime.sleep(600)').catch((error: unknown) => error);
  await expect
    .poll(() => served.ask('GET /v1/server'), { timeout: 30_000 })
    .toMatchObject({ executions: { running: 1 } });
  harm(databaseOf(cella));
  expect(await cella.run(['serve', 'status'])).toMatchObject({ code: 0 });
  const stopped = await cella.run(['serve', 'stop']);
  const lives = !/^State:\s+Z/m.test(statusOf(served.pid));
  expect({ stopped, lives }).toMatchObject({ lives: false });
  expect(stopped.code).toBe(await served.started.ended);
  await running;
});

test.each(['', 'no database\n'.repeat(1000)])(
  'no server runs where the database cannot be read: %#',
  async (content) => {
    using cella = new Cella();
    writeFileSync(databaseOf(cella), content, { mode: 0o600 });
    const text = `No server runs on ${cella.dataDir}.\n`;
    expect(await cella.run(['serve', 'stop'])).toEqual({ code: 0, out: text, err: '' });
    expect(await cella.run(['serve', 'status'])).toEqual({ code: 3, out: text, err: '' });
    expect(readFileSync(databaseOf(cella), 'utf8')).toBe(content);
  },
);

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return 'State:\tZ'; // nobody needs to fetch its exit code any more
  }
}
