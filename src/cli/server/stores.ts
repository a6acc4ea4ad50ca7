/** What lies in the storage of a server, by way of the sessions there. */

import { CellaError } from '../../protocol/errors.ts';
import type { DepsApi, NamespacesApi } from '../../session/api.ts';
import type { NamespacesOptions, Shelf, StoreContents } from '../context.ts';
import { findAt, keyOf, openAt } from './open.ts';
import { checkTellable } from './options.ts';
import type { Reached } from './reach.ts';
import { unmadeAt } from './unmade.ts';

type Opened = NamespacesApi & AsyncDisposable;

/** Things are changed by way of a session: that of the agent, made where there is none. */
export async function namespacesAt(reached: Reached, options: NamespacesOptions): Promise<Opened> {
  const wanted = { sandbox: 'on', ...options } as const;
  checkTellable(wanted, reached);
  const there = await findAt(reached, keyOf(options.agentKey));
  return there ? await openAt(reached, wanted) : unmadeAt(reached, () => openAt(reached, wanted));
}

/** The server on the data folder changes the packages, so that its live kernels find them; the rest needs no kernel. */
export function withDepsAt(reached: Reached, options: NamespacesOptions, local: Opened): Opened {
  const change = async <T>(work: (deps: DepsApi) => Promise<T>): Promise<T> => {
    await using session = await namespacesAt(reached, options);
    return await work(session.deps);
  };
  const deps: DepsApi = {
    list: () => local.deps.list(),
    status: () => local.deps.status(),
    add: (requirements, work) => change((there) => there.add(requirements, work)),
    remove: (name, work) => change((there) => there.remove(name, work)),
    sync: (work) => change((there) => there.sync(work)),
  };
  const { tools, skills, artifacts } = local;
  return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: () => local[Symbol.asyncDispose]() };
}

export async function storeAt(reached: Reached, options: NamespacesOptions): Promise<StoreContents> {
  await using session = await namespacesAt(reached, options);
  const nameOf = ({ name }: { readonly name: string }) => name;
  return {
    tools: (await session.tools.list()).map(nameOf),
    skills: (await session.skills.list()).map(nameOf),
    artifacts: (await session.artifacts.list()).map(({ name, size }) => ({ name, size })),
    deps: await session.deps.list(),
  };
}

/** An agent without a session gets one; what is no agent has no checkpoints. */
export function shelfAt(reached: Reached, { agentKey, ...place }: NamespacesOptions): Shelf {
  const key = keyOf(agentKey);
  const open = async () => {
    const there = await findAt(reached, key);
    const known = there !== undefined || (await reached.client.agents()).some((agent) => agent.agentKey === key);
    return known ? await openAt(reached, { ...place, agentKey: key, sandbox: 'on' }) : undefined;
  };
  return {
    list: async () => {
      await using session = await open();
      return ((await session?.checkpoints()) ?? []).filter(({ kind }) => kind === 'durable');
    },
    // Whoever runs the server is told of them.
    damaged: async () => [],
    delete: async (id) => {
      await using session = await open();
      try {
        await session?.deleteCheckpoint(id);
        return session !== undefined;
      } catch (error) {
        if (error instanceof CellaError && error.code === 'CHECKPOINT_NOT_FOUND') return false;
        throw error;
      }
    },
  };
}
