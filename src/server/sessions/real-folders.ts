/**
 * The folders of the machine that a session names, as they are when it is made: a link that stands in their way later was
 * put there by somebody else than who named them.
 */

import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { NewSession } from '../../protocol/session-info.ts';
import { type FolderId, folderId } from '../../sandbox/spec.ts';

export function withRealFolders<T extends Pick<NewSession, 'cwd' | 'sandbox'>>(wanted: T): T {
  const { cwd, sandbox } = wanted;
  const place = cwd === undefined ? {} : { cwd: real(cwd) };
  if (typeof sandbox !== 'object') return { ...wanted, ...place };
  const { readable, writable } = sandbox;
  const folders = {
    ...(readable === undefined ? {} : { readable: readable.map(real) }),
    ...(writable === undefined ? {} : { writable: writable.map(real) }),
  };
  return { ...wanted, ...place, sandbox: { ...sandbox, ...folders } };
}

/** Which folders they are, by path. */
export function recordFolders({ cwd, sandbox }: Pick<NewSession, 'cwd' | 'sandbox'>): Record<string, FolderId> {
  const { readable = [], writable = [] } = typeof sandbox === 'object' ? sandbox : {};
  const paths = [...(cwd === undefined ? [] : [cwd]), ...readable, ...writable];
  const there = paths.filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
  return Object.fromEntries(there.map((path) => [path, folderId(path)]));
}

function real(path: string): string {
  try {
    return realpathSync.native(resolve(path));
  } catch {
    return path; // what is wrong with it is told where it is opened
  }
}
