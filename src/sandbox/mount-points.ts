/** Where an environment finds what Cella mounts into it: agent programs, the gateway's socket, the proxy's socket. */

import { chmodSync, mkdirSync, mkdtempSync, realpathSync, statSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';
import { listenInFolder } from '../lib/listen-in-folder.ts';
import type { Mount } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';
import { folderProblem, readableFolder } from './spec.ts';

/** The socket of the gateway, in the gateway folder of an environment. */
export const GATEWAY_SOCKET = 'socket';
/** The socket of the network proxy, in its folder. */
export const PROXY_SOCKET = 'proxy';

const SUPPORT_FOLDER = '/cella';
const APP_DIR = `${SUPPORT_FOLDER}/app` as const;
const GATEWAY_DIR = `${SUPPORT_FOLDER}/gateway` as const;

/** Paths as they are inside. Unlike those of a policy, the folders on the host may lie anywhere, as in the data folder. */
export const AGENT_PATHS = {
  app: APP_DIR,
  node: `${APP_DIR}/node`,
  runner: `${APP_DIR}/runner`,
  programs: `${APP_DIR}/programs`,
  gateway: GATEWAY_DIR,
  /** The one way to the host. */
  socket: `${GATEWAY_DIR}/${GATEWAY_SOCKET}`,
} as const;

/** Folders of the host's. What is in them can be read and run inside, and not changed. */
interface AgentPrograms {
  /** With the binary `node`. */
  readonly node: string;
  readonly runner?: string | undefined;
  /** Those that were installed, by name and version. */
  readonly programs?: string | undefined;
}

export interface AgentMounts extends AgentPrograms {
  /** One that `makeGatewayFolder` has made. No other sandbox sees it. */
  readonly gateway?: string | undefined;
}

/** `root`: whether the sandbox runs as another user than this process. */
export function agentMounts(folders: AgentMounts, root: boolean): Mount[] {
  const names = ['node', 'runner', 'programs', 'gateway'] as const;
  return names.flatMap((name) => {
    const path = folders[name];
    return path === undefined
      ? []
      : [{ ...readableFolder(resolveHostFolder(path, name), root), at: AGENT_PATHS[name] }];
  });
}

/** Nothing that a caller has named may lie where an agent's programs are looked for. */
export function checkAgentMounts(folders: readonly Mount[]): void {
  const taken = folders.map(({ path, at = path }) => at).find((at) => `${at}/`.startsWith(`${SUPPORT_FOLDER}/`));
  if (taken === undefined) return;
  const message = `${taken} cannot be shown to a coding agent, which finds its programs in ${SUPPORT_FOLDER}; name another folder.`;
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
 * Makes one below a folder that only this user can enter: the sandbox's user can connect to the socket, and
 * nobody else on this machine.
 */
export function makeGatewayFolder(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  chmodSync(parent, 0o700);
  const folder = mkdtempSync(join(parent, 'gateway-'));
  // Whatever the umask of this process is.
  chmodSync(folder, 0o755);
  return folder;
}

export async function listenInGateway(folder: string, server: Server): Promise<void> {
  await listenInFolder(server, folder, GATEWAY_SOCKET);
}
