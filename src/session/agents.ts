/** Every agent of a storage, whoever holds it. */

import { readdirSync, readFileSync } from 'node:fs';
import type { SessionRecord } from '../protocol/record.ts';
import type { Storage } from '../storage/contract.ts';
import type { AgentInfo } from './api.ts';
import { dataFolder } from './data-folder.ts';
import { storageFor } from './storages.ts';

export interface WhichAgents {
  readonly dataDir?: string;
  readonly storage?: Storage | undefined;
  /** By their keys; all by default. */
  readonly which?: (agentKey: string) => boolean;
}

export async function listAgents({ dataDir, storage: given, which }: WhichAgents = {}): Promise<AgentInfo[]> {
  const { storage: opening, giveBack } = storageFor(given, dataFolder(dataDir));
  try {
    const storage = await opening;
    const records = await storage.records.list();
    const wanted = which ? records.filter(({ agentKey }) => which(agentKey)) : records;
    return await Promise.all(wanted.map((record) => describe(storage, record)));
  } finally {
    giveBack();
  }
}

async function describe(storage: Storage, record: SessionRecord): Promise<AgentInfo> {
  const { agentKey, lastSave, executions, workspaceOf, lastUsedAt } = record;
  const held = await storage.locks.holder(agentKey);
  const holder = held && { pid: held.pid, since: held.since };
  const pid = holder && record.pid !== undefined && descends(record.pid, holder.pid) ? record.pid : undefined;
  const memoryBytes = pid === undefined ? undefined : memoryOf(pid);
  return {
    agentKey,
    state: holder ? 'live' : 'hibernated',
    ...(holder ? { holder } : {}),
    ...(pid === undefined ? {} : { pid }),
    ...(memoryBytes === undefined ? {} : { memoryBytes }),
    idleMs: Math.max(0, Date.now() - lastUsedAt),
    ...(lastSave ? { lastSave } : {}),
    executions,
    ...(workspaceOf === undefined ? {} : { workspaceOf }),
  };
}

/** A record may be older than the process that has its number by now. */
function descends(pid: number, ancestor: number): boolean {
  for (let one: number | undefined = pid; one !== undefined && one > 1; one = parentOf(one)) {
    if (one === ancestor) return true;
  }
  return false;
}

/** Private memory of a process and all that came from it; undefined where this user may not look. */
function memoryOf(root: number): number | undefined {
  const parents = new Map(pids().map((pid) => [pid, parentOf(pid)]));
  const family = new Set([root]);
  for (let before = 0; before !== family.size; ) {
    before = family.size;
    for (const [pid, parent] of parents) if (parent !== undefined && family.has(parent)) family.add(pid);
  }
  try {
    return [...family].reduce((total, pid) => total + privateBytes(pid), 0);
  } catch {
    return undefined; // another user's, or it ended while we looked
  }
}

function privateBytes(pid: number): number {
  const lines = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').matchAll(/^Private_\w+:\s+(\d+) kB/gm);
  return [...lines].reduce((total, [, kb]) => total + Number(kb) * 1024, 0);
}

function pids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return []; // no /proc on this system
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined; // it has ended
  }
}
