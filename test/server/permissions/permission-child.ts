/** A process that hosts a session in which an agent waits for somebody's leave, and is killed then. */

import { writeFileSync } from 'node:fs';
import { SessionManager } from '../../../src/server/sessions/session-manager.ts';
import { storageFromBootstrap } from '../../../src/storage/bootstrap-storage.ts';

const [, place = ''] = process.argv.slice(2);
const { dataDir, config } = JSON.parse(place);
const storage = await storageFromBootstrap(config);
const host = await SessionManager.open({ storage, dataDir });
const { session } = await host.create('local', { agentKey: 'killed' });
const hosted = await host.open(session.id);
const { signal } = new AbortController();
void hosted.permissions.request(
  { tool: 'Bash', summary: 'make', input: { command: 'make' } },
  { user: 'local', turn: 'trn_0000000000000001', signal },
);
for await (const item of hosted.events()) {
  if (item.type === 'permission_requested') writeFileSync(1, `${JSON.stringify({ sessions: [hosted.id, item.id] })}\n`);
}
