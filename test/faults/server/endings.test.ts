/** How a server ends: whatever becomes of its log, of its terminal and of its event loop, a signal ends it. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { SAME_SIGNAL_MS } from '../../../src/cli/command-lifecycle.ts';
import { checkEndings, readLog } from '../../soak/log.ts';
import { Cella, type StartOptions } from '../../support/cli/command.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { newSession, pythonFlags, standStill, standsStillOnSignal } from './checked-session.ts';

/** Runs what comes after it with streams of its own. */
const streams = (redirections: string) => ['sh', '-c', `exec "$@" ${redirections}`, 'sh'];

async function started(cella: Cella, options: StartOptions & { unheard?: boolean } = {}): Promise<Served> {
  return await Served.start(cella, [...pythonFlags, '--log-level', 'info', '--grace', '2'], options);
}

/** A running cell, and its answer. */
async function running(served: Served, id: string): Promise<{ readonly answer: Promise<Response> }> {
  const answer = fetch(new URL(`/v1/sessions/${id}/execute`, served.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${served.token}` },
    body: JSON.stringify({ code: 'import time\nwhile True: time.sleep(0.01)' }),
  });
  answer.catch(() => {}); // the test looks at it, or the server has ended
  await expect
    .poll(async () => (await readLog(served, id)).filter(({ type }) => type === 'execution_started').length)
    .toBeGreaterThan(0);
  return { answer };
}

test('`serve stop` reports that a server was killed in the meantime', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, [...pythonFlags, '--grace', '600']);
  await running(served, await newSession(served));
  const stop = cella.start(['serve', 'stop'], { input: '' });
  await expect.poll(() => served.ask('GET /v1/server')).toMatchObject({ draining: true });
  await served.kill();
  expect(await stop.ended).toBe(1);
  expect(stop.err).toContain(`Process ${served.pid} has ended, but did not report whether it saved everything.`);
});

/** Gives the program a pipe as stderr that nobody reads any more. */
const GONE = `import os, sys
reader, writer = os.pipe()
os.dup2(writer, 2)
os.close(reader)
os.execvp(sys.argv[1], sys.argv[1:])`;

describe('a log that cannot be written delays neither requests nor shutdown', () => {
  const rows: readonly (readonly [fault: string, around: readonly string[]])[] = [
    ['stderr on a full disk', streams('2>/dev/full')],
    ['stderr is a pipe that nobody reads', ['sh', '-c', 'mkfifo "$TMPDIR/err"; exec "$@" 2<>"$TMPDIR/err"', 'sh']],
    ['stderr is closed', streams('2>&-')],
    ['stdout and stderr are closed', streams('>&- 2>&-')],
    ['the reader of stderr has gone', ['python3', '-c', GONE]],
  ];

  test.each(rows)('%s', async (_fault, around) => {
    using cella = new Cella();
    const served = await started(cella, { around, unheard: true });
    const id = await newSession(served, 'log');
    expect(await served.ask(`POST /v1/sessions/${id}/execute`, { body: { code: '6 * 7' } })).toMatchObject({
      value: 42,
    });
    // More than a pipe holds.
    for (let n = 0; n < 500; n++) await served.ask('GET /v1/sessions');
    served.started.child.kill('SIGTERM');
    expect(await served.started.ended).toBe(0);
    await using again = await started(cella);
    checkEndings(id, await readLog(again, id));
  });
});

test('with many running cells, each is reported as interrupted, and the exit code is 0', async () => {
  using cella = new Cella();
  const served = await started(cella);
  const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => newSession(served, `busy-${n}`)));
  const cells = await Promise.all(ids.map((id) => running(served, id)));
  served.started.child.kill('SIGTERM');
  for (const { answer } of cells) expect(await (await answer).json()).toMatchObject({ status: 'interrupted' });
  expect(await served.started.ended).toBe(0);
  await using again = await started(cella);
  for (const id of ids) expect(checkEndings(id, await readLog(again, id)).size).toBe(1);
});

test('a second signal ends the server at once, even if its event loop is blocked', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, [...pythonFlags, '--log-level', 'info', '--grace', '600'], {
    nodeFlags: ['--import', standsStillOnSignal],
  });
  const { child } = served.started;
  await running(served, await newSession(served, 'still'));
  child.kill('SIGTERM');
  await expect.poll(() => served.started.err).toContain('draining');
  // Equal signals within this time count as one.
  await delay(2 * SAME_SIGNAL_MS);
  await standStill(served);
  child.kill('SIGTERM');
  expect(await served.started.ended).toBe('SIGTERM');
  await using _again = await started(cella); // nothing of the one that has ended is in the way
});

/** Of a process of Node. */
function listensForDebugger(pid: number): Promise<boolean> {
  void pid;
  return new Promise((resolve) => {
    const socket = connect(9229, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

test.each([
  ['cella serve', []],
  ['cella serve --detach', ['--detach']],
])('SIGUSR1 opens no debugger: %s', async (_name, more) => {
  using cella = new Cella();
  const facts = join(cella.dataDir, 'daemon.json');
  const starting = cella.start(['serve', '--port', '0', ...pythonFlags, ...more]);
  await starting.says('The first cell');
  const { pid, url }: { pid: number; url: string } = JSON.parse(readFileSync(facts, 'utf8'));
  const threads = () => readdirSync(`/proc/${pid}/task`).length;
  const before = threads();
  process.kill(pid, 'SIGUSR1');
  for (let n = 0; n < 20; n++) expect((await fetch(new URL('/health', url))).status).toBe(200);
  expect(await listensForDebugger(pid)).toBe(false);
  expect(threads()).toBeLessThanOrEqual(before + 4); // of its pool of threads
  process.kill(pid, 'SIGTERM');
  await expect.poll(() => existsSync(facts)).toBe(false);
  await starting.ended;
});

test('other signals have no effect', async () => {
  using cella = new Cella();
  await using served = await started(cella);
  const id = await newSession(served, 'signals');
  for (const signal of ['SIGPIPE', 'SIGCHLD', 'SIGURG', 'SIGWINCH', 'SIGUSR1', 'SIGTSTP', 'SIGCONT'] as const) {
    served.started.child.kill(signal);
  }
  expect(await served.ask(`POST /v1/sessions/${id}/execute`, { body: { code: '1' } })).toMatchObject({ value: 1 });
});

test('a server that is ended while it starts leaves nothing that prevents the next start', async () => {
  using cella = new Cella();
  for (const afterMs of [150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 900, 1500]) {
    const starting = cella.start(['serve', '--port', '0', ...pythonFlags]);
    const timer = setTimeout(() => starting.child.kill('SIGTERM'), afterMs);
    await starting.ended;
    clearTimeout(timer);
  }
  await using served = await started(cella);
  expect(await served.ask('GET /v1/sessions')).toMatchObject({ sessions: [] });
});
