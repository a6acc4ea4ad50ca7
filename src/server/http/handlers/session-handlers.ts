/** Handlers for sessions and the state of their kernels. */

import type { Share } from '../../../protocol/access-models.ts';
import type { sessionRoutes, stateRoutes } from '../../../protocol/api/session-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { type SessionInfo, SessionSettings, type ShareRequest } from '../../../protocol/session-info.ts';
import type { SessionApi } from '../../../session/api.ts';
import type { Privilege } from '../../../settings/settings-table.ts';
import type { AccessControl } from '../../access/access-control.ts';
import { type Principal, rightOf } from '../../access/authorization.ts';
import { wakeSession } from '../../quotas/admission.ts';
import type { Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';

export function sessionHandlers({ host, access, kernels, config }: ServerContext): Handlers<typeof sessionRoutes> {
  return {
    createSession: async ({ body = {}, principal, auditTarget, context }) => {
      checkPrivileges(principal, body, config.membersMay);
      const { shares, ...wanted } = body;
      const given = { ...wanted, ...(await resolveShares(shares, access.users)) };
      const { session, created } = await host.create(principal.userId, given);
      auditTarget({ session: session.id });
      return created ? session : context.json(session, 200);
    },

    listSessions: async ({ query, principal }) => {
      const { label, owner, ...wanted } = query;
      const labels = label === undefined ? {} : { labels: labelsOf(label) };
      const ownerId = owner === undefined ? undefined : ((await access.users.find(owner))?.id ?? owner);
      return await host.list(
        { ...wanted, ...labels, ownerId },
        (session) => rightOf(principal, session.ownerId, session.shares) !== undefined,
        principal.scopes.includes('admin') ? undefined : principal,
      );
    },

    listKernels: async ({ principal }) => {
      return { kernels: await host.kernels(principal.userId) };
    },

    getSession: async ({ info }) => info,

    updateSession: async ({ info, body, principal }) => {
      const { shares, ...wanted } = body;
      if (wanted.limits) await kernels.admitChange(info, SessionSettings.shape.limits.parse(wanted.limits));
      const change = { ...wanted, ...(await resolveShares(shares, access.users)) };
      return await host.update(info.id, change, { by: principal.userId });
    },

    deleteSession: ({ info }) => host.delete(info.id),

    confirmFork: async ({ info, principal }) => {
      // What it lets the code use is the owner's, and nobody else's to give.
      if (principal.userId !== info.ownerId) {
        throw new CellaError('FORBIDDEN', `Only its owner confirms session ${info.id}.`, {
          advice: `Ask its owner, ${info.ownerId.split('~', 1)[0]}, to confirm it.`,
          details: { session: info.id },
        });
      }
      return await host.confirm(info.id, { by: principal.userId });
    },

    forkSession: async ({ info, body, principal, auditTarget }) => {
      // It is the forker's own from here on, with all that its parent was allowed.
      checkPrivileges(principal, info.settings, config.membersMay);
      await kernels.admit(info);
      await kernels.admitFork(info, principal.userId);
      const forked = await host.fork(info.id, principal.userId, body);
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
  const { host, storageQuota } = service;
  const api = (info: SessionInfo): Promise<SessionApi> => wakeSession(service, info);

  return {
    completeCode: async ({ info, body }) => (await api(info)).complete(body.code, body.cursor),

    inspectCode: async ({ info, body }) => (await api(info)).inspect(body.code, body.cursor),

    checkComplete: async ({ info, body }) => (await api(info)).isComplete(body.code),

    listVariables: async ({ info }) => ({
      variables: await (await api(info)).variables(),
    }),

    readHistory: async ({ info }) => ({
      history: [...(await (await host.open(info.id)).history())],
    }),

    createCheckpoint: async ({ info, body: { name, durable }, auditTarget }) => {
      await storageQuota.admit(info.ownerId);
      const made = await (await api(info)).checkpoint({
        name,
        durable,
      });
      auditTarget({ target: made.id });
      storageQuota.addStored(info.ownerId, made.bytes ?? 0);
      return made;
    },

    listCheckpoints: async ({ info }) => ({
      checkpoints: await (await api(info)).checkpoints(),
    }),

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

type PrivilegedSettings = Pick<SessionSettings, 'executor' | 'sandbox' | 'cwd'>;

function checkPrivileges(principal: Principal, asked: PrivilegedSettings, membersMay: readonly Privilege[]): void {
  // Of an administrator's token only what it was made for.
  if (principal.scopes.includes('admin')) return;
  const missing = [...neededFor(asked)].find(([privilege]) => !membersMay.includes(privilege));
  if (!missing) return;
  const [privilege, what] = missing;
  const message = `${what} is for administrators here, or for all with \`cella serve --members-may ${privilege}\`.`;
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
  // A list may name hosts that only this machine can reach.
  else if (sandbox.network !== undefined && sandbox.network !== 'none')
    yield ['network', 'A network with a list of hosts'];
  // Without control groups, limits hold for each process and not for all together.
  if (sandbox.cgroup === 'if-available') yield ['unsandboxed', 'A sandbox without control groups'];
}

/** Undefined where nothing was said of shares. */
async function resolveShares(
  wishes: readonly ShareRequest[] | undefined,
  users: AccessControl['users'],
): Promise<{ shares?: Share[] }> {
  if (wishes === undefined) return {};
  return { shares: await Promise.all(wishes.map((wish) => resolveShare(wish, users))) };
}

async function resolveShare(wish: ShareRequest, users: AccessControl['users']): Promise<Share> {
  if ('role' in wish) return wish;
  const named = 'user' in wish ? wish.user : wish.userId;
  const user = await users.find(named);
  if (user) return { userId: user.id, userName: user.name, right: wish.right };
  throw new CellaError('INVALID_REQUEST', `shares: there is no user ${JSON.stringify(named)}.`);
}
