/** Lists the kernels of a storage by agent key, whichever process holds them. */

import { readdir, readFile } from 'node:fs/promises';
import { inSlices } from '../lib/event-loop.ts';
import { parseProcessStat } from '../lib/process-identity.ts';
import type { KernelInfo } from '../protocol/kernel-state.ts';
import type { Storage } from '../storage/contract.ts';
import type { SessionRecord } from '../storage/session-record.ts';
import { dataFolder } from './data-folders.ts';
import { acquireStorage } from './shared-resources.ts';

interface ListKernelsOptions {
  readonly dataDir?: string;
  readonly storage?: Storage | undefined;
  /** Filters by key. */
  readonly which?: (agentKey: string) => boolean;
}

export async function listKernels({ dataDir, storage: given, which }: ListKernelsOptions = {}): Promise<KernelInfo[]> {
  const { resource, release } = acquireStorage(given, dataFolder(dataDir));
  try {
    const storage = await resource;
    const processes = new ProcessTable();
    const kernels: KernelInfo[] = [];
    for await (const record of storage.records.list(which && { which })) {
      kernels.push(await describeKernel(storage, record, processes));
    }
    return kernels;
  } finally {
    release();
  }
}

async function describeKernel(storage: Storage, record: SessionRecord, processes: ProcessTable): Promise<KernelInfo> {
  const { agentKey, lastSave, executions, workspaceOf, lastUsedAt } = record;
  const held = await storage.locks.ownerOf(agentKey);
  const owner = held && { pid: held.pid, since: held.since };
  // The pid in an old record may belong to another process by now.
  const isIts = owner && record.pid !== undefined && (await processes.descends(record.pid, owner.pid));
  const pid = isIts ? record.pid : undefined;
  const memoryBytes = pid === undefined ? undefined : await processes.memoryOf(pid);
  return {
    agentKey,
    state: owner ? 'live' : 'hibernated',
    owner,
    pid,
    memoryBytes,
    idleMs: Math.max(0, Date.now() - lastUsedAt),
    lastSave,
    executions,
    workspaceOf,
  };
}

/** The processes of this machine: /proc is read once for all kernels. */
class ProcessTable {
  #parents: Promise<ReadonlyMap<number, number>> | undefined;
  #children: Promise<ReadonlyMap<number, readonly number[]>> | undefined;

  async descends(pid: number, ancestor: number): Promise<boolean> {
    const parents = await this.#read();
    for (let one: number | undefined = pid; one !== undefined && one > 1; one = parents.get(one)) {
      if (one === ancestor) return true;
    }
    return false;
  }

  /** Private memory of a process and its descendants; undefined if this user may not read it. */
  async memoryOf(root: number): Promise<number | undefined> {
    this.#children ??= this.#read().then((parents) => {
      const children = new Map<number, number[]>();
      for (const [pid, parent] of parents) {
        const known = children.get(parent);
        if (known) known.push(pid);
        else children.set(parent, [pid]);
      }
      return children;
    });
    const children = await this.#children;
    const family = [root];
    // It grows during the loop.
    for (const pid of family) family.push(...(children.get(pid) ?? []));
    try {
      let total = 0;
      for (const pid of family) total += await privateBytes(pid);
      return total;
    } catch {
      return undefined; // another user's, or it has ended
    }
  }

  #read(): Promise<ReadonlyMap<number, number>> {
    this.#parents ??= readParents();
    return this.#parents;
  }
}

async function readParents(): Promise<Map<number, number>> {
  const parents = new Map<number, number>();
  const names = await readdir('/proc').catch(() => []); // no /proc on this system
  for await (const name of inSlices(names)) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => undefined); // it has ended
    const found = stat && parseProcessStat(stat);
    if (found) parents.set(found.pid, found.parent);
  }
  return parents;
}

async function privateBytes(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  const lines = rollup.matchAll(/^Private_\w+:\s+(\d+) kB/gm);
  return [...lines].reduce((total, [, kb]) => total + Number(kb) * 1024, 0);
}
