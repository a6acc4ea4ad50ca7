/** Lists and describes sessions, and the kernels of a user. Open sessions describe themselves. */

import type { z } from 'zod';
import { inSlices } from '../../lib/event-loop.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import { parseOptions } from '../../protocol/parse.ts';
import { type SessionInfo, type SessionPage, SessionQuery } from '../../protocol/session-info.ts';
import { listKernels } from '../../session/kernel-list.ts';
import { agentKeyIn } from '../ids.ts';
import type { OpenSessions } from './open-sessions.ts';
import type { ServerSession } from './server-session.ts';
import { type SessionDefinition, type SessionDefinitions, toSessionInfo } from './session-definitions.ts';
import type { SessionManagerOptions } from './session-manager-options.ts';
import type { SessionServices } from './session-services.ts';
import type { Viewer } from './session-types.ts';

/** How many sessions one page looks through. */
const MAX_SCANNED = 2000;

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
    let last: string | undefined;
    for await (const definition of this.#definitionsFor(wanted, cursor, viewer)) {
      if (looked++ >= MAX_SCANNED) return { sessions, next: last };
      if (definition.life === 'present') {
        const info = await this.describe(definition, others?.get(definition.id));
        if (matches(info, wanted) && visible(info)) {
          if (sessions.length === limit) return { sessions, next: sessions.at(-1)?.id };
          sessions.push(info);
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
      if (definition?.ownerId === ownerId) live.push(await this.describe(definition, others?.get(id)));
    }
    return live;
  }

  async forksOf(id: string): Promise<SessionInfo[]> {
    const forks: SessionInfo[] = [];
    for await (const definition of this.#definitions.where([{ field: 'forkOf', value: id }])) {
      if (definition.life === 'present') forks.push(await this.describe(definition));
    }
    return forks;
  }

  /** `state`: as another server reports it. */
  async describe(definition: SessionDefinition, state: SessionInfo['state'] = 'hibernated'): Promise<SessionInfo> {
    const session = await this.#open.find(definition.id);
    return toSessionInfo(definition, session ?? { state, queued: 0 });
  }

  /** Reads only those of one user, or those that one viewer may see, if that is known. */
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
      yield* this.#definitions.all(after === undefined ? {} : { after });
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
  const agents = new Map(stored.map((agent) => [agent.agentKey, agent]));
  for (const session of open) {
    if (session.definition.ownerId !== ownerId) continue;
    const now = await session.kernelState();
    // A session that was never used has no record yet.
    if (!now || (now.executions === 0 && !agents.has(now.key))) continue;
    const { key, state, executions } = now;
    const known = agents.get(key) ?? { agentKey: key, idleMs: 0 };
    agents.set(key, { ...withoutProcess(known, state), state, executions });
  }
  return [...agents.values()].map(({ agentKey, workspaceOf, ...facts }) => ({
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
