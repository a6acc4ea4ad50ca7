/** A process that hosts sessions at work and comes to a bad end: it tells, line by line, what it has seen of them. */

import { writeFileSync } from 'node:fs';
import type { ServerSession } from '../../../src/server/sessions/server-session.ts';
import { SessionManager } from '../../../src/server/sessions/session-manager.ts';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { execute } from '../../support/servers/executions.ts';

const [, place = ''] = process.argv.slice(2);
const { dataDir, config } = JSON.parse(place);
const storage = await storageFromBootstrap(config);
const host = await SessionManager.open({ storage, dataDir, session: { saveAfterMs: 20 } });

function tell(line: object): void {
  writeFileSync(1, `${JSON.stringify(line)}\n`);
}

/** Tells the number of each event that it was sent. */
async function watch(serverSession: ServerSession): Promise<void> {
  const { last } = await serverSession.position();
  for await (const item of serverSession.events({ after: last })) {
    if (item.type !== 'trimmed') tell({ seen: [serverSession.id, item.seq, item.type] });
  }
}

async function work(serverSession: ServerSession): Promise<never> {
  void watch(serverSession);
  for (;;) await execute(serverSession, 'for n in range(20): print(n, flush=True)');
}

const made = await Promise.all(['a', 'b', 'c'].map((agentKey) => host.create('local', { agentKey })));
const all = await Promise.all(made.map(({ session }) => host.open(session.id)));
tell({ sessions: all.map(({ id }) => id) });
await Promise.all(all.map(work));
