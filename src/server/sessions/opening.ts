/**
 * What a session is opened with: the lock by which it is this server's, and what the server before this one has left. What
 * ran then is marked before anybody reads.
 */

import type { Lock, Storage } from '../../storage/contract.ts';
import type { Definition } from './definition.ts';
import { EventWriter, type WriterParts } from './event-writer.ts';
import { storageKeyOf } from './ids.ts';
import { Outputs } from './outputs.ts';
import { takeSession } from './ownership.ts';
import { recoverLog } from './recovery.ts';
import { Requests } from './requests.ts';
import type { HostShare } from './share.ts';

export interface Opening {
  readonly lock: Lock;
  readonly definition: Definition;
  /** For what is written on its behalf. */
  readonly storage: Storage;
  readonly outputs: Outputs;
  readonly requests: Requests;
  /** Made once, by whoever can tell of the failures and the results. */
  readonly writer: (told: Pick<WriterParts, 'onFailure' | 'resultOf'>) => EventWriter;
}

export async function beginOpening(share: HostShare, known: Definition): Promise<Opening> {
  const { dataDir, counters } = share;
  const { id, ownerId, agentKey } = known;
  const key = storageKeyOf(ownerId, agentKey);
  const outputs = new Outputs(dataDir, id);
  const lock = await takeSession(share.storage, key);
  const recover = async () => {
    // Another server may have changed or deleted it before the lock was this one's.
    const definition = await share.current(known);
    const storage = share.storage.fenced(lock);
    const requests = new Requests(storage.documents, outputs, id, share.requests);
    await share.leftovers?.arrive(id, key);
    return { definition, storage, requests, ...(await recoverLog(storage, { key, sessionId: id, requests })) };
  };
  const { position, interrupted, ...recovered } = await recover().catch(async (error) => {
    await lock.release().catch(() => {}); // what kept it from opening is told
    throw error;
  });
  if (interrupted > 0) counters.executions.interrupted = (counters.executions.interrupted ?? 0) + interrupted;
  const owned = () => lock.state !== 'lost';
  return {
    ...recovered,
    lock,
    outputs,
    writer: (told) => new EventWriter({ log: recovered.storage.events, key, counters, owned, ...told }, position),
  };
}
