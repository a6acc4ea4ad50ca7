/** Roles, providers, executors, reserved keys and file names, without zod: the command line loads them at its start. */

/** From fewest to most permissions. */
export const roles = ['viewer', 'member', 'admin'] as const;

/** Rights on a session; each includes the ones before it: view it; run code in it and change its files; change, share and delete it. */
export const rights = ['view', 'use', 'manage'] as const;

/** Scopes of a token. The first three limit the rights on sessions; `tokens` is for the user's own tokens, `admin` for everything else. */
export const scopes = [...rights, 'tokens', 'admin'] as const;

export const providers = ['anthropic', 'openai', 'gemini'] as const;
export type Provider = (typeof providers)[number];

/** How an execution ended. */
export const executionStatuses = ['ok', 'error', 'timeout', 'interrupted', 'died'] as const;
export type Status = (typeof executionStatuses)[number];

/**
 * How an agent reaches its model. `gateway`: through the server, which alone knows the key. `just-in-time`: the agent's
 * process gets the key when it asks for it.
 */
export const keyModes = ['gateway', 'just-in-time'] as const;
export type KeyMode = (typeof keyModes)[number];

export interface Capabilities {
  /** `threading` starts threads. */
  readonly threads: boolean;
  /** `subprocess`, `os.system` and tools that run beside the code. */
  readonly subprocesses: boolean;
  /** An interrupt ends `time.sleep` at once. */
  readonly interruptSleep: boolean;
  /** A rollback reverts everything, including changes in place, in modules and in the process. */
  readonly trueRollback: boolean;
  /** A second kernel with the same memory. */
  readonly liveFork: boolean;
}

export const ALL_CAPABILITIES: Capabilities = {
  threads: true,
  subprocesses: true,
  interruptSleep: true,
  trueRollback: true,
  liveFork: true,
};

/** Python in WebAssembly: no threads, no processes, no forks. */
export const IN_PROCESS_CAPABILITIES: Capabilities = {
  threads: false,
  subprocesses: false,
  interruptSleep: true,
  trueRollback: false,
  liveFork: false,
};

export const executorKinds = ['subprocess', 'container', 'in-process'] as const;
export type ExecutorKind = (typeof executorKinds)[number];

/** `auto` is the default of a session. */
export function resolveExecutor(wanted: ExecutorKind | 'auto'): ExecutorKind {
  return wanted === 'auto' ? 'subprocess' : wanted;
}

export function capabilitiesOf(kind: ExecutorKind): Capabilities {
  return kind === 'in-process' ? IN_PROCESS_CAPABILITIES : ALL_CAPABILITIES;
}

/** A blank agent key means `default`. */
export function normalizeAgentKey(agentKey = ''): string {
  return agentKey.trim() === '' ? 'default' : agentKey;
}

export function isReservedKey(agentKey: string): boolean {
  return agentKey.startsWith('~');
}

/** The user of a key in storage, and the agent key as this user sees it. `user` is undefined for the local user. */
export function readStorageKey(storageKey: string): { readonly user?: string; readonly agentKey: string } {
  const [, user, agentKey] = /^~([^/]+)~[a-z0-9]{12}\/(.*)$/s.exec(storageKey) ?? [];
  return user === undefined || agentKey === undefined ? { agentKey: storageKey } : { user, agentKey };
}

/** Describes the running server, see `ServerFile`. */
export const SERVER_FILE = 'daemon.json';
/** Only the user that runs the server can open it. */
export const SOCKET_FILE = 'daemon.sock';
