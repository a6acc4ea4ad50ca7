/** The paths where Cella mounts its own parts into an environment: agent programs, the gateway's socket, the proxy's socket. */

import { chmodSync, mkdirSync, mkdtempSync, realpathSync, statSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';
import { listenInFolder } from '../lib/listen-in-folder.ts';
import type { Mount } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';
import { folderProblem, readableFolder } from './named-folders.ts';

/** The gateway's socket, in the gateway folder of an environment. */
export const GATEWAY_SOCKET = 'socket';
/** The network proxy's socket, in its folder. */
export const PROXY_SOCKET = 'proxy';

const SUPPORT_FOLDER = '/cella';
const APP_DIR = `${SUPPORT_FOLDER}/app` as const;
const GATEWAY_DIR = `${SUPPORT_FOLDER}/gateway` as const;

/**
 * Paths inside the environment. Unlike a policy's folders, the matching host folders may be anywhere, even in the data folder.
 */
export const AGENT_PATHS = {
  app: APP_DIR,
  node: `${APP_DIR}/node`,
  runner: `${APP_DIR}/runner`,
  programs: `${APP_DIR}/programs`,
  gateway: GATEWAY_DIR,
  /** The only way to the host. */
  socket: `${GATEWAY_DIR}/${GATEWAY_SOCKET}`,
} as const;

/** Folders of the host. The environment can read and run their files, but not change them. */
interface AgentPrograms {
  /** The folder with the `node` binary. */
  readonly node: string;
  readonly runner?: string | undefined;
  /** Installed agent programs, by name and version. */
  readonly programs?: string | undefined;
}

export interface AgentMounts extends AgentPrograms {
  /** A folder from `makeGatewayFolder`. No other sandbox sees it. */
  readonly gateway?: string | undefined;
}

/** `root`: whether the sandbox runs as a different user from this process. */
export function agentMounts(folders: AgentMounts, root: boolean): Mount[] {
  const names = ['node', 'runner', 'programs', 'gateway'] as const;
  return names.flatMap((name) => {
    const path = folders[name];
    if (path === undefined) return [];
    // These folders are Cella's own or the operator's, and may be replaced by a newer version at any time.
    const { id: _, ...folder } = readableFolder(resolveHostFolder(path, name), { root });
    return [{ ...folder, at: AGENT_PATHS[name] }];
  });
}

/** A caller's folders must not cover the paths of an agent's programs. */
export function checkAgentMounts(folders: readonly Mount[]): void {
  const taken = folders.map(({ path, at = path }) => at).find((at) => `${at}/`.startsWith(`${SUPPORT_FOLDER}/`));
  if (taken === undefined) return;
  const message = `${taken} cannot be mounted for a coding agent, which has its programs in ${SUPPORT_FOLDER}; name another folder.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function resolveHostFolder(path: string, what: string): string {
  try {
    const real = realpathSync.native(path);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `${what}: ${folderProblem(path, cause)}.`, { cause });
  }
  throw new CellaError('INVALID_OPTIONS', `${what}: ${path} is not a folder.`);
}

/**
 * Creates a gateway folder below a folder that only this user can enter: the sandbox's user can connect to the socket, and no
 * other user of the machine can.
 */
export function makeGatewayFolder(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  chmodSync(parent, 0o700);
  const folder = mkdtempSync(join(parent, 'gateway-'));
  // mkdir applies this process's umask.
  chmodSync(folder, 0o755);
  return folder;
}

export async function listenInGateway(folder: string, server: Server): Promise<void> {
  await listenInFolder(server, folder, GATEWAY_SOCKET);
}
