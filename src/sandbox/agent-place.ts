/** The place of a coding agent inside its enclosure: Cella's programs and the way to the model, beside the session's folders. */

import { chmodSync, mkdirSync, mkdtempSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import { type Folder, folderProblem, readableFolder } from './spec.ts';

const APP_DIR = '/cella/app';

/** Paths as they are inside. No policy can name them: these folders may lie where none of a caller's may. */
export const AGENT_PLACE = {
  app: APP_DIR,
  node: `${APP_DIR}/node`,
  runner: `${APP_DIR}/runner`,
  programs: `${APP_DIR}/programs`,
  /** Holds one socket, which leads to the host. */
  gateway: '/cella/gateway',
} as const;

/** Folders of the host's, freed of no links yet. What is in them can be read and run inside, and not changed. */
export interface AgentPrograms {
  /** With the binary `node`. */
  readonly node: string;
  readonly runner?: string | undefined;
  /** Those that were installed, by name and version. */
  readonly programs?: string | undefined;
}

export interface AgentFolders extends AgentPrograms {
  /** One that `makeGatewayFolder` has made. No other enclosure sees it. */
  readonly gateway?: string | undefined;
}

/** `root`: whether the enclosure runs as another user than this process. */
export function agentFolders(folders: AgentFolders, root: boolean): Folder[] {
  const names = ['node', 'runner', 'programs', 'gateway'] as const;
  return names.flatMap((name) => {
    const path = folders[name];
    return path === undefined ? [] : [{ ...readableFolder(resolved(path, name), root), at: AGENT_PLACE[name] }];
  });
}

/**
 * A folder for one socket, below one that only this user can enter, so that whoever an engine runs as can connect to it
 * and nobody else on this machine can. Whoever listens there lets all write to the socket.
 */
export function makeGatewayFolder(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  chmodSync(parent, 0o700);
  const folder = mkdtempSync(join(parent, 'gateway-'));
  chmodSync(folder, 0o755);
  return folder;
}

function resolved(path: string, what: string): string {
  try {
    const real = realpathSync.native(path);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `${what}: ${folderProblem(path, cause)}.`, { cause });
  }
  throw new CellaError('INVALID_OPTIONS', `${what}: ${path} is not a folder.`);
}
