/** A process that hosts a session in which an agent waits for somebody's leave, and is killed then. */

import { writeFileSync } from 'node:fs';
import { SessionManager } from '../../../src/server/sessions/session-manager.ts';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';

const [, place = ''] = process.argv.slice(2);
const { dataDir, config } = JSON.parse(place);
const storage = await storageFromBootstrap(config);
const host = await SessionManager.open({ storage, dataDir });
const { session } = await host.create('local', { agentKey: 'killed' });
const serverSession = await host.open(session.id);
const { signal } = new AbortController();
void serverSession.permissions.request(
  { tool: 'Bash', summary: 'make', input: { command: 'make' } },
  { user: 'local', turn: 'trn_0000000000000001', signal },
);
for await (const item of serverSession.events()) {
  if (item.type === 'permission_requested')
    writeFileSync(1, `${JSON.stringify({ sessions: [serverSession.id, item.id] })}\n`);
}
