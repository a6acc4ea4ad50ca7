/** A client notices a server that was stopped: whatever it waits for ends with an error. A server that is busy is waited for. */

import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Client, connect } from '../../../src/client/index.ts';
import { Cella } from '../../support/cli/command.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { pythonFlags } from './tenant.ts';

const limits = { silenceMs: 1500, resumeMs: 1500 };
const gone = { code: 'SERVER_UNREACHABLE' };

const ways: readonly (readonly [way: string, connect: (served: Served) => Promise<Client>])[] = [
  ['socket', (served) => connect({ socket: join(served.dataDir, 'daemon.sock'), ...limits })],
  ['address', (served) => connect({ url: served.url, token: served.token, ...limits })],
];

describe.each(ways)('by its %s', (_way, connectTo) => {
  test('a request, running code, a follower and a terminal end when the server was stopped', async () => {
    using cella = new Cella();
    const served = await Served.start(cella, pythonFlags);
    try {
      await using client = await connectTo(served);
      const session = await client.open({ agentKey: 'silent' });
      const terminal = await session.terminal({ cols: 80, rows: 24 });
      const events = session.events({ after: 0 });
      await events.next();
      const cell = session.run('import time\nprint("begun", flush=True)\ntime.sleep(600)');
      cell.catch(() => {}); // looked at below
      const following = (async () => {
        for await (const event of events) if ('type' in event && event.type === 'stdout') break;
        served.started.child.kill('SIGSTOP');
        for await (const _ of session.events({ after: 1_000_000 }));
      })();
      following.catch(() => {}); // looked at below
      await expect(terminal.exited).rejects.toMatchObject(gone);
      await expect(cell).rejects.toMatchObject(gone);
      await expect(following).rejects.toMatchObject(gone);
      await expect(client.server.status()).rejects.toMatchObject(gone);
    } finally {
      await served.kill();
    }
  }, 60_000);

  test('code that says nothing for longer than the server may be silent is not cut', async () => {
    using cella = new Cella();
    await using served = await Served.start(cella, pythonFlags);
    await using client = await connectTo(served);
    const session = await client.open({ agentKey: 'slow' });
    expect(await session.run('import time\ntime.sleep(5)\n42')).toMatchObject({ value: 42 });
  }, 60_000);
});
