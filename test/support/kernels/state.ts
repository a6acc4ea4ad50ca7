/** What suites about state have in common: the host's view of a kernel, and the checkpoints as they lie on disk. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ResultEvent, Session } from '../../../src/index.ts';
import { folderName } from '../../../src/storage/validation.ts';
import { descendants } from '../processes/processes.ts';

/** The pids that a process has, outermost first: the host's own, and those of the namespaces it lives in. */
export function numbersOf(pid: number): number[] {
  try {
    const line = /^NSpid:(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return (line?.[1] ?? '').trim().split(/\s+/).map(Number);
  } catch {
    return []; // it ended while we looked
  }
}

/** The kernel's process, on the host. Runs a cell to find it. */
export async function kernelPid(session: Session): Promise<number> {
  const { value } = await session.run('__import__("os").getpid()');
  const found = descendants(session.pid).find(({ pid }) => numbersOf(pid).at(-1) === value);
  if (!found) throw new Error(`no process below ${session.pid} has the number ${value}`);
  return found.pid;
}

/** Kernel and frozen forks, and whatever else lives in the sandbox of a session. */
export const residents = (session: Session): number[] => descendants(session.pid).map(({ pid }) => pid);

/** Kills a process and waits until the session knows: its next result tells of it. */
export function kill(pid: number): void {
  if (pid <= 1) throw new Error(`${pid} is nobody to kill`);
  process.kill(pid, 'SIGKILL');
}

/** Where the durable checkpoints of an agent lie. */
export const checkpointFolder = (dataDir: string, agentKey = 'default'): string =>
  join(dataDir, 'checkpoints', folderName(agentKey));

/** The folders of the checkpoints of an agent. */
export function storedCheckpoints(dataDir: string, agentKey = 'default'): string[] {
  try {
    const folder = checkpointFolder(dataDir, agentKey);
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

export interface StoredManifest {
  id: string;
  kind: string;
  bytes: number;
  sequence: number;
  saved: string[];
  segments: { kind: string; names: string[]; portable: boolean; bytes: number; sha256: string }[];
}

export function readManifest(checkpoint: string): StoredManifest {
  const { checksum: _, ...content } = JSON.parse(readFileSync(join(checkpoint, 'manifest.json'), 'utf8'));
  return content;
}

/** With a checksum that fits, as nobody but this program should be able to write it. */
export function writeManifest(checkpoint: string, content: StoredManifest): void {
  const checksum = createHash('sha256').update(JSON.stringify(content)).digest('hex');
  writeFileSync(join(checkpoint, 'manifest.json'), `${JSON.stringify({ ...content, checksum })}\n`);
}

/** The first chunk of a checkpoint, and where the segment that holds a name begins in it. */
export function locate(checkpoint: string, name: string): { chunk: string; offset: number; bytes: number } {
  let offset = 0;
  for (const { names, bytes } of readManifest(checkpoint).segments) {
    if (names.includes(name)) return { chunk: join(checkpoint, '0000.chunk'), offset, bytes };
    offset += bytes;
  }
  throw new Error(`${name} is in no segment`);
}

/** The names of `lost`, with their reasons. */
export const reasons = (lost: readonly { name: string; reason: string }[] | undefined): Record<string, string> =>
  Object.fromEntries((lost ?? []).map(({ name, reason }) => [name, reason]));

/** Runs a cell that must end well, and gives its value. */
export async function evaluate(session: Session, code: string): Promise<unknown> {
  return expectOk(await session.run(code)).value;
}

export function expectOk(result: ResultEvent): ResultEvent {
  if (result.status === 'ok') return result;
  throw new Error(`${result.status}: ${result.error?.traceback || result.error?.message}`);
}
