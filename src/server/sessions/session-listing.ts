/** Lists and describes the sessions and the kernels of a user. */

import type { z } from 'zod';
import { inSlices } from '../../lib/event-loop.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import { parseOptions } from '../../protocol/parse.ts';
import { type SessionInfo, type SessionPage, SessionQuery } from '../../protocol/session-info.ts';
import { listKernels } from '../../session/kernel-list.ts';
import { agentKeyIn } from '../ids.ts';
import type { OpenSessions } from './open-sessions.ts';
import type { ServerSession } from './server-session.ts';
import type { SessionDefinition, SessionDefinitions } from './session-definitions.ts';
import type { SessionManager } from './session-manager.ts';
import type { SessionManagerOptions, SessionServices, Viewer } from './session-types.ts';

/** How many sessions one page examines. */
const MAX_SCANNED = 2000;
/** Characters of JSON in one page; it may exceed this by one session. */
const MAX_PAGE_CHARACTERS = 1024 * 1024;

export class SessionListing {
  readonly #definitions: SessionDefinitions;
  readonly #open: OpenSessions;
  readonly #elsewhere: SessionManagerOptions['elsewhere'];

  /** `elsewhere`: the states of sessions on other servers. */
  constructor(definitions: SessionDefinitions, open: OpenSessions, elsewhere: SessionManagerOptions['elsewhere']) {
    this.#definitions = definitions;
    this.#open = open;
    this.#elsewhere = elsewhere;
  }

  async list(
    query: SessionQuery,
    visible: (session: SessionInfo) => boolean = () => true,
    viewer?: Viewer,
  ): Promise<SessionPage> {
    const { limit, cursor, ...wanted } = parseOptions(SessionQuery, query);
    const sessions: SessionInfo[] = [];
    const others = await this.#elsewhere?.();
    let looked = 0;
    let characters = 0;
    let last: string | undefined;
    for await (const definition of this.#definitionsFor(wanted, cursor, viewer)) {
      if (looked++ >= MAX_SCANNED) return { sessions, next: last };
      if (definition.life === 'present') {
        const info = await this.#open.describe(definition, others?.get(definition.id));
        if (matches(info, wanted) && visible(info)) {
          if (sessions.length === limit) return { sessions, next: sessions.at(-1)?.id };
          sessions.push(info);
          characters += JSON.stringify(info).length;
          if (characters >= MAX_PAGE_CHARACTERS) return { sessions, next: info.id };
        }
      }
      last = definition.id;
    }
    return { sessions };
  }

  /** The user's sessions with a live kernel, on any server, and the named ones. */
  async live(ownerId: string, named: Iterable<string> = []): Promise<SessionInfo[]> {
    const others = await this.#elsewhere?.();
    const ids = new Set([...this.#open.ids, ...(others?.keys() ?? []), ...named]);
    const live: SessionInfo[] = [];
    for await (const id of inSlices(ids)) {
      const session = await this.#open.find(id);
      if (session && session.definition.ownerId !== ownerId) continue;
      const definition = session?.definition ?? (await this.#definitions.get(id).catch(() => undefined)); // deleted meanwhile
      if (definition?.ownerId === ownerId) live.push(await this.#open.describe(definition, others?.get(id)));
    }
    return live;
  }

  async forksOf(id: string): Promise<SessionInfo[]> {
    const forks: SessionInfo[] = [];
    for await (const definition of this.#definitions.where([{ field: 'forkOf', value: id }])) {
      if (definition.life === 'present') forks.push(await this.#open.describe(definition));
    }
    return forks;
  }

  /** Reads only the sessions of one user, or those visible to one viewer, if given. */
  async *#definitionsFor(
    { ownerId, agentKey }: SessionQuery,
    after: string | undefined,
    viewer: Viewer | undefined,
  ): AsyncGenerator<SessionDefinition> {
    if (ownerId !== undefined && agentKey !== undefined && after === undefined) {
      const found = await this.#definitions.find(ownerId, agentKey);
      if (found) yield found;
    } else if (ownerId !== undefined) {
      yield* this.#definitions.where([{ field: 'ownerId', value: ownerId }], after);
    } else if (viewer) {
      const { userId, role } = viewer;
      const theirs = { ownerId: userId, 'shares.userId': userId, 'shares.role': role };
      const fields = Object.entries(theirs).map(([field, value]) => ({ field, value }));
      yield* this.#definitions.where(fields, after);
    } else {
      yield* this.#definitions.all({ after });
    }
  }
}

function matches(
  info: SessionInfo,
  { labels = {}, ...wanted }: Omit<z.output<typeof SessionQuery>, 'limit' | 'cursor'>,
) {
  const { agentKey = info.agentKey, ownerId = info.ownerId, state = info.state } = wanted;
  const labelled = Object.entries(labels).every(([label, value]) => info.labels[label] === value);
  return labelled && agentKey === info.agentKey && ownerId === info.ownerId && state === info.state;
}

export async function listUserKernels(
  { storage, dataDir }: SessionServices,
  ownerId: string,
  open: readonly ServerSession[],
): Promise<KernelInfo[]> {
  const mine = (key: string) => agentKeyIn(ownerId, key) !== undefined;
  const stored = await listKernels({ dataDir, storage, which: mine });
  const kernels = new Map(stored.map((kernel) => [kernel.agentKey, kernel]));
  for (const session of open) {
    if (session.definition.ownerId !== ownerId) continue;
    const now = await session.kernelState();
    // A session that was never used has no record yet.
    if (!now || (now.executions === 0 && !kernels.has(now.key))) continue;
    const { key, state, executions } = now;
    const known = kernels.get(key) ?? { agentKey: key, idleMs: 0 };
    kernels.set(key, { ...withoutProcess(known, state), state, executions });
  }
  return [...kernels.values()].map(({ agentKey, workspaceOf, ...facts }) => ({
    agentKey: agentKeyIn(ownerId, agentKey) ?? agentKey,
    ...facts,
    workspaceOf: workspaceOf === undefined ? undefined : (agentKeyIn(ownerId, workspaceOf) ?? workspaceOf),
  }));
}

type StoredKernel = Omit<KernelInfo, 'state' | 'executions'>;

/** A hibernated kernel has none. */
function withoutProcess({ pid, memoryBytes, ...known }: StoredKernel, state: KernelInfo['state']): StoredKernel {
  if (state === 'hibernated') return known;
  return { ...known, pid, memoryBytes };
}

const PAGE = 1000;

/** All sessions of a user. */
export async function sessionsOf(manager: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions: SessionInfo[] = [];
  let cursor: string | undefined;
  do {
    const page = await manager.list({ ownerId, limit: PAGE, cursor });
    sessions.push(...page.sessions);
    cursor = page.next;
  } while (cursor !== undefined);
  return sessions;
}

/** The sessions of a user and all their forks, which work in the same workspaces. A fork comes after its parent. */
export async function sessionsWithForks(manager: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions = new Map((await sessionsOf(manager, ownerId)).map((session) => [session.id, session]));
  // The loop also visits the forks that it adds.
  for (const [id] of sessions) for (const fork of await manager.forksOf(id)) sessions.set(fork.id, fork);
  return [...sessions.values()].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}
