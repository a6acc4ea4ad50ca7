/** Commands and servers that wait for another process end their wait, also if that process was stopped or says nothing. */

import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { SAME_SIGNAL_MS } from '../../../src/cli/command-lifecycle.ts';
import { Cella } from '../../support/cli/command.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { pythonFlags, standStill, standsStillOnSignal } from './checked-session.ts';

/** Longer than any deadline that is tried here, on a busy machine. */
const LONG_MS = 60_000;

const isThere = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false; // it has ended
  }
};

test(
  '`serve --detach` gives up a server that is stopped before it is ready, and ends it',
  async () => {
    using cella = new Cella();
    // The server writes its own number, and stops itself; the command that starts it does not.
    const stopped = join(cella.temporary, 'stopped');
    const code = `import fs from 'node:fs';
if (process.argv.includes('--ready-fd')) { fs.writeFileSync(${JSON.stringify(stopped)}, String(process.pid)); process.kill(process.pid, 'SIGSTOP'); }`;
    const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(code)}`;
    const { code: exit, err } = await cella.run(['serve', '--port', '0', '--detach', ...pythonFlags], {
      env: { NODE_OPTIONS },
    });
    const pid = Number(readFileSync(stopped, 'utf8'));
    expect(exit).not.toBe(0);
    expect(err).toContain(`process ${pid} was stopped`);
    expect(isThere(pid)).toBe(false);
  },
  LONG_MS,
);

test(
  '`serve stop --timeout` ends in time even if the server is stopped while it shuts down',
  async () => {
    using cella = new Cella();
    const served = await Served.start(cella, [...pythonFlags, '--log-level', 'info', '--grace', '600']);
    const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey: 'still' } });
    const cell = served.ask(`POST /v1/sessions/${id}/execute`, { body: { code: 'import time\ntime.sleep(600)' } });
    cell.catch(() => {}); // the server is killed
    await expect.poll(() => served.ask('GET /v1/server')).toMatchObject({ executions: { running: 1 } });
    const stopping = cella.start(['serve', 'stop', '--timeout', '3'], { input: '' });
    await expect.poll(() => served.started.err, { timeout: 20_000 }).toContain('draining');
    served.started.child.kill('SIGSTOP');
    try {
      expect(await stopping.ended).not.toBe(0);
      expect(stopping.err).toContain('still runs after 3');
    } finally {
      await served.kill();
    }
  },
  LONG_MS,
);

test(
  'a command gives up a server that accepts connections and never answers',
  async () => {
    using cella = new Cella();
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    try {
      const { code, err } = await cella.run(['sessions', 'list', '--url', url], {
        env: { CELLA_TOKEN: 'cella_nobody' },
      });
      expect(code).not.toBe(0);
      expect(err).toContain(`The server at ${url} has not answered`);
    } finally {
      silent.close();
    }
  },
  LONG_MS,
);

test(
  'two signals end a server whose event loop was blocked before the first',
  async () => {
    using cella = new Cella();
    const served = await Served.start(cella, [...pythonFlags, '--grace', '600'], {
      nodeFlags: ['--import', standsStillOnSignal],
    });
    const { child } = served.started;
    await standStill(served);
    child.kill('SIGTERM');
    // Equal signals within this time count as one: a terminal and a launcher send the same one twice.
    await delay(2 * SAME_SIGNAL_MS);
    expect(child.exitCode ?? child.signalCode).toBe(null);
    child.kill('SIGTERM');
    const ended = await Promise.race([served.started.ended, delay(10_000, 'it is still there')]);
    expect(ended).toMatch(/^SIG(TERM|KILL)$/);
    await using _again = await Served.start(cella, pythonFlags); // nothing of the one that has ended is in the way
  },
  LONG_MS,
);
