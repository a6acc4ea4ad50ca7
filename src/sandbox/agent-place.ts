/** The place of a coding agent inside its enclosure: Cella's programs and the way to the model, beside the session's folders. */

import { realpathSync, statSync } from 'node:fs';
import { CellaError } from '../protocol/errors.ts';
import { GATEWAY_SOCKET } from './gateway-folder.ts';
import { type Folder, folderProblem, readableFolder } from './spec.ts';

const PLACE = '/cella';
const APP_DIR = `${PLACE}/app` as const;
const GATEWAY_DIR = `${PLACE}/gateway` as const;

/** Paths as they are inside. Unlike those of a policy, the folders on the host may lie anywhere, as in the data folder. */
export const AGENT_PLACE = {
  app: APP_DIR,
  node: `${APP_DIR}/node`,
  runner: `${APP_DIR}/runner`,
  programs: `${APP_DIR}/programs`,
  gateway: GATEWAY_DIR,
  /** The one way to the host. */
  socket: `${GATEWAY_DIR}/${GATEWAY_SOCKET}`,
} as const;

/** Folders of the host's. What is in them can be read and run inside, and not changed. */
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

/** Nothing that a caller has named may lie where an agent's programs are looked for. */
export function checkPlace(folders: readonly Folder[]): void {
  const taken = folders.map(({ path, at = path }) => at).find((at) => `${at}/`.startsWith(`${PLACE}/`));
  if (taken === undefined) return;
  const message = `${taken} cannot be shown to a coding agent, which finds its programs in ${PLACE}; name another folder.`;
  throw new CellaError('INVALID_OPTIONS', message);
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
