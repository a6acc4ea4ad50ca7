/** How long things stay: events by age and size, files and requests too. Never while code runs whose events they are. */

import type { Definition } from './definition.ts';
import { storageKeyOf } from './ids.ts';
import { Outputs } from './outputs.ts';
import { Requests } from './requests.ts';
import type { HostShare } from './share.ts';

/** For a session in which nothing runs and nothing begins meanwhile. Gives the floor of its log. */
export async function retain(share: HostShare, { id, ownerId, agentKey }: Definition): Promise<number> {
  const { storage, dataDir, retention } = share;
  const { maxAgeMs, maxBytes, maxFileBytes } = retention;
  const oldest = maxAgeMs > 0 ? Date.now() - maxAgeMs : 0;
  const floor = await storage.events.trim(storageKeyOf(ownerId, agentKey), {
    ...(maxBytes > 0 ? { maxBytes } : {}),
    ...(maxAgeMs > 0 ? { olderThan: oldest } : {}),
  });
  const outputs = new Outputs(dataDir, id);
  await outputs.trim({ olderThan: oldest, maxBytes: maxFileBytes > 0 ? maxFileBytes : Number.POSITIVE_INFINITY });
  await new Requests(storage.documents, outputs, id, share.requests).trim();
  return floor;
}
