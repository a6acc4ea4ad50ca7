/**
 * The clock of a server's machine, set forward and back while it runs and between two starts. The clock of this machine
 * stays as it is: `Date` of the server is shifted. Timers and leases go by clocks that nobody sets.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Cella } from '../../support/cli/command.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { CheckedSession, codeOf, endInOrder, pythonFlags } from './checked-session.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const shifts = [6 * HOUR, -6 * HOUR, 3 * DAY, -3 * DAY, 20 * DAY, -20 * YEAR, 0];

/** Reads by how much it is off from a file, at the start and whenever SIGUSR2 comes, and writes beside it what it has read. */
const PRELOAD = `
import { readFileSync, writeFileSync } from 'node:fs';
const { now } = Date;
const Real = Date;
let shift = 0;
const read = () => {
  shift = Number(readFileSync(process.env.TEST_CLOCK, 'utf8'));
  writeFileSync(process.env.TEST_CLOCK + '.read', String(shift));
};
globalThis.Date = class Date extends Real {
  constructor(...given) { given.length === 0 ? super(now() + shift) : super(...given); }
  static now() { return now() + shift; }
};
read();
process.on('SIGUSR2', read);
`;

class Clocked {
  readonly cella: Cella;
  readonly #path: string;

  constructor(cella: Cella) {
    this.cella = cella;
    this.#path = join(cella.temporary, 'clock');
    writeFileSync(this.#path, '0');
  }

  /** The clock is set before it starts. */
  async start(shift = 0, flags: readonly string[] = []): Promise<Served> {
    writeFileSync(this.#path, String(shift));
    return await Served.start(this.cella, [...pythonFlags, '--grace', '1', ...flags], {
      env: { TEST_CLOCK: this.#path },
      nodeFlags: ['--import', `data:text/javascript,${encodeURIComponent(PRELOAD)}`],
    });
  }

  /** The clock is set while it runs. */
  async set(served: Served, shift: number): Promise<void> {
    writeFileSync(this.#path, String(shift));
    served.started.child.kill('SIGUSR2');
    await expect.poll(() => readFileSync(`${this.#path}.read`, 'utf8')).toBe(String(shift));
  }
}

test('whatever the clock is set to, in a cell and between cells, events, saves and variables are intact', async () => {
  using cella = new Cella();
  const clocked = new Clocked(cella);
  const served = await clocked.start();
  const session = await CheckedSession.of(served, 'clock');
  await session.run('kept = 0');
  for (const [index, shift] of shifts.entries()) {
    const running = session.run('name = input(); kept += 1; kept', { timeoutMs: 30_000 });
    const asked = async () =>
      (
        await served.ask<{ events: { type: string }[] }>(`GET /v1/sessions/${session.id}/events?after=0&limit=5000`)
      ).events.filter(({ type }) => type === 'input_request');
    await expect.poll(async () => (await asked()).length).toBe(index + 1);
    await clocked.set(served, shift);
    await session.call('POST', '/input', { request: Object((await asked()).at(-1)).id, text: 'x' });
    expect(await running).toMatchObject({ status: 'ok', value: index + 1 });
    await session.call('POST', '/save');
    await session.call('POST', '/hibernate');
    expect(await session.run('kept')).toMatchObject({ value: index + 1 });
  }
  await session.check();
  await endInOrder(served);
  for (const shift of [-5 * HOUR, 3 * DAY]) {
    const again = await clocked.start(shift);
    expect(await again.ask('GET /v1/me')).toMatchObject({ role: 'admin' });
    expect(await session.at(again).run('kept')).toMatchObject({ value: shifts.length });
    await session.check(again);
    await endInOrder(again);
  }
});

test('a token is valid only until it expires, and setting the clock back does not revive it', async () => {
  using cella = new Cella();
  const clocked = new Clocked(cella);
  const served = await clocked.start();
  await served.ask('POST /v1/users', { body: { name: 'ada', role: 'member' } });
  const make = async (expiresInMs: number) =>
    (await served.ask<{ token: string }>('POST /v1/tokens', { body: { name: 'short', user: 'ada', expiresInMs } }))
      .token;
  const look = (token: string, by = served) => codeOf(by.ask('GET /v1/me', { token }));
  const token = await make(12 * HOUR);
  expect(await look(token)).toBe('ok');
  await clocked.set(served, 6 * HOUR);
  expect(await look(token)).toBe('ok');
  await clocked.set(served, 13 * HOUR);
  expect(await look(token)).toBe('UNAUTHENTICATED');
  await clocked.set(served, -6 * HOUR);
  expect(await look(token)).toBe('UNAUTHENTICATED');
  // The admin's has no end.
  expect(await look(served.token)).toBe('ok');
  await endInOrder(served);
  const again = await clocked.start(-20 * YEAR);
  expect(await look(token, again)).toBe('UNAUTHENTICATED');
  expect(await look(again.token, again)).toBe('ok');
  await endInOrder(again);
});

test('leases in Redis depend only on the clock of Redis, whatever a server’s clock shows', async () => {
  using first = new Cella();
  using second = new Cella();
  await using redis = await RedisServer.start({ args: ['--appendfsync', 'always'] });
  const flags = ['--storage', 'redis', '--redis', redis.url];
  const [one, two] = [new Clocked(first), new Clocked(second)];
  const owner = await one.start(0, flags);
  const other = await two.start(-3 * DAY, flags);
  const session = await CheckedSession.of(owner, 'leased');
  const elsewhere = session.at(other);
  await session.run('kept = 0');
  for (const shift of [3 * DAY, -6 * HOUR, 20 * DAY, 0]) {
    await one.set(owner, shift);
    expect(await session.run('kept += 1; kept')).toMatchObject({ status: 'ok' });
    // The other does not take it, and passes on what it is asked.
    expect(await elsewhere.run('kept')).toMatchObject({ status: 'ok' });
  }
  expect(await session.run('kept')).toMatchObject({ value: 4 });
  await session.check();
  await endInOrder(owner);
  expect(await elsewhere.run('kept')).toMatchObject({ value: 4 });
  await session.check(other);
  await endInOrder(other);
});
