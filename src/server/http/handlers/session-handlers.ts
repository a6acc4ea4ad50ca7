/** Handlers for sessions and the state of their kernels. */

import { toCheckpoint } from '../../../kernel-manager/kernel-checkpoints.ts';
import { giveWay } from '../../../lib/event-loop.ts';
import { KeyedSerialQueue } from '../../../lib/queues.ts';
import type { Share } from '../../../protocol/access-models.ts';
import type { kernelCheckpointRoutes, sessionRoutes, stateRoutes } from '../../../protocol/api/session-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import type { Checkpoint } from '../../../protocol/kernel-state.ts';
import { type SessionInfo, SessionSettings, type ShareRequest } from '../../../protocol/session-info.ts';
import type { SessionApi } from '../../../session/api.ts';
import type { Privilege } from '../../../settings/settings-table.ts';
import type { CheckpointSummary } from '../../../storage/contract.ts';
import type { AccessControl } from '../../access/access-control.ts';
import { type Principal, rightOf } from '../../access/authorization.ts';
import { agentKeyIn, storageKeyOf } from '../../ids.ts';
import { openKernel } from '../../quotas/user-quotas.ts';
import type { Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';

export function sessionHandlers({ sessions, access, kernels, config }: ServerContext): Handlers<typeof sessionRoutes> {
  /** One page at a time per user: building a page holds all its sessions in memory. */
  const pages = new KeyedSerialQueue<string>();
  return {
    createSession: async ({ body = {}, principal, auditTarget, context }) => {
      checkPrivileges(principal, body, config.membersMay);
      const { shares, ...wanted } = body;
      const given = { ...wanted, ...(await resolveShares(shares, access.users)) };
      const { session, created } = await sessions.create(principal.userId, given);
      auditTarget({ session: session.id });
      return created ? session : context.json(session, 200);
    },

    listSessions: async ({ query, principal }) => {
      const { label, owner, ...wanted } = query;
      const labels = label === undefined ? {} : { labels: labelsOf(label) };
      const ownerId = owner === undefined ? undefined : ((await access.users.find(owner))?.id ?? owner);
      const visible = (session: SessionInfo) => rightOf(principal, session.ownerId, session.shares) !== undefined;
      const viewer = principal.scopes.includes('admin') ? undefined : principal;
      return await pages.run(principal.userId, () => sessions.list({ ...wanted, ...labels, ownerId }, visible, viewer));
    },

    listKernels: async ({ principal }) => {
      return { kernels: await sessions.kernels(principal.userId) };
    },

    getSession: async ({ info }) => info,

    updateSession: async ({ info, body, principal }) => {
      const { shares, ...wanted } = body;
      const change = { ...wanted, ...(await resolveShares(shares, access.users)) };
      const limits = wanted.limits && SessionSettings.shape.limits.parse(wanted.limits);
      using _kernel = limits && (await kernels.admitChange(info, limits));
      return await sessions.update(info.id, change, { by: principal.userId });
    },

    deleteSession: ({ info }) => sessions.delete(info.id),

    confirmFork: async ({ info, principal }) => {
      // Confirming lets the code act for the owner, so only the owner may do it.
      if (principal.userId !== info.ownerId) {
        throw new CellaError('FORBIDDEN', `Only its owner can confirm session ${info.id}.`, {
          advice: `Ask its owner, ${info.ownerId.split('~', 1)[0]}, to confirm it.`,
          details: { session: info.id },
        });
      }
      return await sessions.confirm(info.id, { by: principal.userId });
    },

    forkSession: async ({ info, body, principal, auditTarget }) => {
      // The fork belongs to the caller and keeps the parent's settings, so the caller needs the privileges for them.
      checkPrivileges(principal, info.settings, config.membersMay);
      await kernels.admit(info);
      using _kernel = await kernels.admitFork(info, principal.userId);
      const forked = await sessions.fork(info.id, principal.userId, body);
      auditTarget({ target: forked.id });
      return forked;
    },
  };
}

function labelsOf(given: string | string[]): Record<string, string> {
  return Object.fromEntries(
    [given].flat().map((label) => {
      const [name = '', ...value] = label.split('=');
      if (value.length === 0) throw new CellaError('INVALID_REQUEST', 'label: must be written as name=value.');
      return [name, value.join('=')];
    }),
  );
}

export function stateHandlers(service: ServerContext): Handlers<typeof stateRoutes> {
  const { sessions, storageQuota } = service;
  const api = (info: SessionInfo): Promise<SessionApi> => openKernel(service, info);

  /** One page at a time per user: building a page holds all its checkpoints in memory. */
  const pages = new KeyedSerialQueue<string>();
  return {
    completeCode: async ({ info, body }) => (await api(info)).complete(body.code, body.cursor),

    inspectCode: async ({ info, body }) => (await api(info)).inspect(body.code, body.cursor),

    checkComplete: async ({ info, body }) => (await api(info)).isComplete(body.code),

    listVariables: async ({ info }) => ({ variables: await (await api(info)).variables() }),

    readHistory: async ({ info }) => ({ history: [...(await (await sessions.open(info.id)).history())] }),

    createCheckpoint: async ({ info, body: { name, durable }, auditTarget }) => {
      await storageQuota.admit(info.ownerId);
      const made = await (await api(info)).checkpoint({ name, durable });
      auditTarget({ target: made.id });
      storageQuota.addStored(info.ownerId, made.bytes ?? 0);
      return made;
    },

    listCheckpoints: async ({ info, principal, query }) =>
      await pages.run(principal.userId, async () =>
        pageOf(await (await api(info)).checkpoints(), query, async (checkpoint) => checkpoint),
      ),

    restoreCheckpoint: async ({ info, params, auditTarget }) => {
      auditTarget({ target: params.checkpoint });
      return await (await api(info)).restore(params.checkpoint);
    },

    deleteCheckpoint: async ({ info, params, auditTarget }) => {
      auditTarget({ target: params.checkpoint });
      await (await api(info)).deleteCheckpoint(params.checkpoint);
    },

    commitTransaction: async ({ info }) => (await api(info)).commit(),
    rollbackTransaction: async ({ info }) => (await api(info)).rollback(),
    undoCell: async ({ info }) => (await api(info)).undo(),
    saveSession: async ({ info }) => (await api(info)).save(),
    hibernateSession: async ({ info }) => (await api(info)).hibernate(),
    resetSession: async ({ info }) => (await api(info)).reset(),
    restartSession: async ({ info }) => (await api(info)).restart(),
  };
}

export function kernelCheckpointHandlers({
  storage: { checkpoints },
}: Pick<ServerContext, 'storage'>): Handlers<typeof kernelCheckpointRoutes> {
  const pages = new KeyedSerialQueue<string>();
  const listOf = async (userId: string, agentKey: string) => {
    const key = storageKeyOf(userId, agentKey);
    // The user `local` has unprefixed keys in storage, so a key may look like another user's. Then it is not theirs.
    const isOwn = agentKeyIn(userId, key) === agentKey;
    return { key, isOwn, all: isOwn ? await checkpoints.list(key) : [] };
  };
  const isNamed = (wanted: string) => (one: CheckpointSummary) => one.id === wanted || one.name === wanted;
  const load = async (key: string, id: string): Promise<Checkpoint | undefined> => {
    const manifest = await checkpoints.get(key, id);
    return manifest && toCheckpoint(manifest);
  };

  return {
    listKernelCheckpoints: async ({ principal, params, query }) =>
      await pages.run(principal.userId, async () => {
        const { key, all } = await listOf(principal.userId, params.key);
        return await pageOf(all, query, ({ id }) => load(key, id));
      }),

    getKernelCheckpoint: async ({ principal, params: { key: agentKey, checkpoint } }) => {
      const { key, all } = await listOf(principal.userId, agentKey);
      const named = all.findLast(isNamed(checkpoint));
      const found = named && (await load(key, named.id));
      if (!found) throw checkpointNotFound(agentKey, checkpoint);
      return found;
    },

    deleteKernelCheckpoint: async ({ principal, params: { key: agentKey, checkpoint }, auditTarget }) => {
      auditTarget({ target: `${agentKey}/${checkpoint}`.slice(0, 500) });
      const { key, isOwn, all } = await listOf(principal.userId, agentKey);
      const damaged = async () => (isOwn ? await checkpoints.damaged(key) : []).find(({ id }) => id === checkpoint);
      const found = all.findLast(isNamed(checkpoint)) ?? (await damaged());
      if (!found || !(await checkpoints.delete(key, found.id))) throw checkpointNotFound(agentKey, checkpoint);
    },
  };
}

interface PageQuery {
  readonly limit: number;
  readonly after?: string | undefined;
}

/** A page ends early at this many characters. */
const MOST_PAGE_CHARACTERS = 2 * 1024 * 1024;

/** `load` returns undefined for a checkpoint that was deleted meanwhile. */
async function pageOf<T extends CheckpointPlace>(
  all: readonly T[],
  { limit, after }: PageQuery,
  load: (one: T) => Promise<Checkpoint | undefined>,
): Promise<{ checkpoints: Checkpoint[]; next: string | undefined }> {
  const start = after === undefined ? 0 : startOfPage(all, after);
  const checkpoints: Checkpoint[] = [];
  let end = start;
  for (let characters = 0; end - start < limit && characters < MOST_PAGE_CHARACTERS; end += 1) {
    await giveWay();
    const one = all[end];
    if (!one) break;
    const checkpoint = await load(one);
    if (!checkpoint) continue;
    checkpoints.push(checkpoint);
    characters += JSON.stringify(checkpoint).length;
  }
  const [last, next] = [all[end - 1], all[end]];
  return { checkpoints, next: last && next && `${next.createdAt}.${next.id}.${last.id}` };
}

type CheckpointPlace = Pick<Checkpoint, 'id' | 'createdAt'>;

/**
 * The cursor names the first checkpoint of the page and the last checkpoint of the previous page. Either may be deleted by
 * now, as automatic saves are. If both are, the page starts at the same time: several checkpoints may share a millisecond,
 * and repeating some is better than skipping one.
 */
function startOfPage(all: readonly CheckpointPlace[], cursor: string): number {
  const [, time, first, last] = /^(\d{1,16})\.([^.]+)\.([^.]+)$/.exec(cursor) ?? [];
  if (time === undefined) throw new CellaError('INVALID_REQUEST', 'after: is not `next` of a page.');
  const found = all.findIndex(({ id }) => id === first);
  if (found >= 0) return found;
  const before = all.findIndex(({ id }) => id === last);
  if (before >= 0) return before + 1;
  const later = all.findIndex(({ createdAt }) => createdAt >= Number(time));
  return later < 0 ? all.length : later;
}

function checkpointNotFound(agentKey: string, checkpoint: string): CellaError {
  const [name, key] = [checkpoint, agentKey].map((text) => JSON.stringify(text.slice(0, 100)));
  return new CellaError('CHECKPOINT_NOT_FOUND', `There is no durable checkpoint ${name} of ${key}.`);
}

type PrivilegedSettings = Pick<SessionSettings, 'executor' | 'sandbox' | 'cwd'>;

function checkPrivileges(principal: Principal, asked: PrivilegedSettings, membersMay: readonly Privilege[]): void {
  // An administrator's token counts only if it has the scope `admin`.
  if (principal.scopes.includes('admin')) return;
  const missing = [...neededFor(asked)].find(([privilege]) => !membersMay.includes(privilege));
  if (!missing) return;
  const [privilege, what] = missing;
  const message = `${what} is only for administrators. To allow it for members, the operator sets \`cella serve --members-may ${privilege}\`.`;
  throw new CellaError('FORBIDDEN', message, { details: { privilege } });
}

function* neededFor({ executor, sandbox, cwd }: PrivilegedSettings): Iterable<[Privilege, string]> {
  if (executor === 'in-process') yield ['in-process', 'The executor `in-process`'];
  if (sandbox === 'off') yield ['unsandboxed', 'Code without a sandbox'];
  if (cwd !== undefined) yield ['folders', 'A folder of the machine as `cwd`'];
  if (typeof sandbox !== 'object') return;
  if ((sandbox.readable?.length ?? 0) + (sandbox.writable?.length ?? 0) > 0) {
    yield ['folders', 'A folder of the machine in the sandbox'];
  }
  if (sandbox.network === 'host') yield ['network', 'The network of the machine'];
  // A host list may contain hosts that only this machine can reach.
  else if (sandbox.network !== undefined && sandbox.network !== 'none')
    yield ['network', 'A network with a list of hosts'];
  // Without cgroups, limits apply to each process and not to their sum.
  if (sandbox.cgroup === 'if-available') yield ['unsandboxed', 'A sandbox without control groups'];
}

/** Undefined if the request does not mention shares. */
async function resolveShares(
  requests: readonly ShareRequest[] | undefined,
  users: AccessControl['users'],
): Promise<{ shares?: Share[] }> {
  if (requests === undefined) return {};
  return { shares: await Promise.all(requests.map((request) => resolveShare(request, users))) };
}

async function resolveShare(request: ShareRequest, users: AccessControl['users']): Promise<Share> {
  if ('role' in request) return request;
  const named = 'user' in request ? request.user : request.userId;
  const user = await users.find(named);
  if (user) return { userId: user.id, userName: user.name, right: request.right };
  throw new CellaError('INVALID_REQUEST', `shares: there is no user ${JSON.stringify(named)}.`);
}
