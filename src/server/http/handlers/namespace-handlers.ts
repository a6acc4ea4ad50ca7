/** Handlers for tools, skills, artifacts and packages. A route of the user and the same route of a session share one handler. */

import { inSlices } from '../../../lib/event-loop.ts';
import { KeyedSerialQueue } from '../../../lib/queues.ts';
import { MAX_PAGE_CHARACTERS } from '../../../namespaces/host-methods.ts';
import type {
  artifactRoutes,
  depsRoutes,
  sessionNamespaceRoutes,
  skillRoutes,
  toolCallRoutes,
  toolRoutes,
  userNamespaceRoutes,
} from '../../../protocol/api/namespace-routes.ts';
import type { RouteTable } from '../../../protocol/api/route.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { toWireInSlices } from '../../../protocol/json-pieces.ts';
import { ArtifactFacts } from '../../../protocol/namespace-models.ts';
import { valueFromWire } from '../../../protocol/py-values.ts';
import type { SessionInfo } from '../../../protocol/session-info.ts';
import type { DepsApi, UserNamespacesApi } from '../../../session/api.ts';
import type { Principal } from '../../access/authorization.ts';
import { openKernel } from '../../quotas/user-quotas.ts';
import { downloadResponse, uploadedChunks } from '../bodies.ts';
import { type DepsWork, withProgress } from '../event-responses.ts';
import type { AnyHandler, Call, Handlers } from '../router.ts';
import { abortConnection, type RequestContext, type ServerContext } from '../server-context.ts';

type UseNamespaces = <T>(work: (namespaces: UserNamespacesApi) => Promise<T>) => Promise<T>;

/** The namespaces that a call uses: those of its user, or those of a session. */
interface NamespaceOwner {
  readonly userId: string;
  /** Only reads: no kernel is resumed for that. */
  readonly look: UseNamespaces;
  readonly change: UseNamespaces;
  /** Prepares `change`, so that an error is reported before a streamed response starts. */
  prepare(): Promise<void>;
  /** Throws `DEPS_LOCKED` if packages may not be added and removed. */
  requireUnlockedDeps(): void;
}

/** Like `Handlers`, for calls with a namespace owner. */
type OwnedHandlers<T extends RouteTable> = {
  readonly [N in keyof T]: (call: Call<T[N]> & { readonly owner: NamespaceOwner }) => ReturnType<Handlers<T>[N]>;
};

export function namespaceHandlers(
  service: ServerContext,
): Handlers<typeof userNamespaceRoutes> & Handlers<typeof sessionNamespaceRoutes> {
  const handlers: OwnedHandlers<typeof userNamespaceRoutes> = {
    ...toolHandlers,
    ...skillHandlers(service),
    ...artifactHandlers(service),
    ...depsHandlers(service),
  };
  return {
    ...bindOwner(handlers, '', ({ principal }) => namespacesOfUser(service, principal.userId)),
    ...bindOwner(handlers, 'OfSession', ({ info }) => namespacesOfSession(service, info)),
  };
}

function namespacesOfUser({ sessions }: ServerContext, userId: string): NamespaceOwner {
  const use: UseNamespaces = async (work) => {
    await using namespaces = await sessions.namespaces(userId);
    return await work(namespaces);
  };
  return {
    userId,
    look: use,
    change: use,
    prepare: async () => {},
    requireUnlockedDeps: () => {
      if (!sessions.allowsRuntimeDeps()) throw new CellaError('DEPS_LOCKED', 'The packages of this server are locked.');
    },
  };
}

function namespacesOfSession(service: ServerContext, info: SessionInfo): NamespaceOwner {
  const { id, ownerId: userId, settings } = info;
  return {
    userId,
    look: async (work) => {
      await using namespaces = await service.sessions.namespaces(userId, id);
      return await work(namespaces);
    },
    change: async (work) => await work(await openKernel(service, info)),
    prepare: async () => void (await openKernel(service, info)),
    requireUnlockedDeps: () => {
      if (service.sessions.allowsRuntimeDeps(settings)) return;
      throw new CellaError('DEPS_LOCKED', 'The packages of this session are locked.');
    },
  };
}

const toolHandlers: OwnedHandlers<typeof toolRoutes> = {
  listTools: ({ owner, query: { q, ...page } }) =>
    owner.look(async ({ tools }) => {
      if (q !== undefined) return { tools: await foundOf(await tools.search(q, { limit: mostFound(page) })) };
      const { items, next } = await pageOf((await tools.list()).toSorted(byName), page);
      return { tools: items, ...next };
    }),

  listToolProblems: ({ owner }) => owner.look(async ({ tools }) => ({ problems: await tools.problems() })),

  createTool: async ({ owner, body: { yaml, replace = false, where }, auditTarget }) => {
    const created = await owner.change(({ tools }) => tools.create(yaml, { replace, where }));
    auditTarget({ target: created.name });
    return created;
  },

  deleteTool: async ({ owner, params, auditTarget }) => {
    auditTarget({ target: params.name });
    await owner.change(({ tools }) => tools.delete(params.name));
  },

  getTool: ({ owner, params }) => owner.look(async ({ tools }) => await tools.describe(params.name)),
};

export function toolCallHandlers(service: ServerContext): Handlers<typeof toolCallRoutes> {
  return {
    callTool: async ({ info, params, body, auditTarget, context }) => {
      auditTarget({ target: params.name });
      const { recipe, positional = [], named = {}, approved = false } = body;
      const values = Object.fromEntries(Object.entries(named).map(([name, value]) => [name, valueFromWire(value)]));
      const value = await (await openKernel(service, info)).tools.call(params.name, values, {
        recipe,
        positional: positional.map(valueFromWire),
        approved,
        signal: context.req.raw.signal,
      });
      return { value: await toWireInSlices(value) };
    },
  };
}

function skillHandlers({ storageQuota }: ServerContext): OwnedHandlers<typeof skillRoutes> {
  return {
    listSkills: ({ owner, query: { q, ...page } }) =>
      owner.look(async ({ skills }) => {
        if (q !== undefined) return { skills: await foundOf(await skills.search(q, { limit: mostFound(page) })) };
        const { items, next } = await pageOf(await skills.list(), page);
        return { skills: items, ...next };
      }),

    listSkillProblems: ({ owner }) => owner.look(async ({ skills }) => ({ problems: await skills.problems() })),

    getSkill: ({ owner, params }) => owner.look(async ({ skills }) => await skills.get(params.name)),

    createSkill: async ({ owner, body: { name, source, description, replace = false }, auditTarget }) => {
      auditTarget({ target: name });
      await storageQuota.admit(owner.userId, Buffer.byteLength(source) + Buffer.byteLength(description ?? ''));
      const skill = { name, source, description };
      return await owner.change(({ skills }) => skills.create(skill, { replace }));
    },

    deleteSkill: async ({ owner, params, auditTarget }) => {
      auditTarget({ target: params.name });
      await owner.change(({ skills }) => skills.delete(params.name));
    },
  };
}

function artifactHandlers({ storageQuota }: ServerContext): OwnedHandlers<typeof artifactRoutes> {
  /** One page at a time per user: building a page holds the metadata of all its artifacts in memory. */
  const pages = new KeyedSerialQueue<string>();
  return {
    listArtifacts: ({ owner, query }) =>
      owner.look(async ({ artifacts }) => {
        const { items, next } = await pages.run(owner.userId, () => artifactsOf(artifacts, query));
        return { artifacts: items, ...next };
      }),

    getArtifact: ({ owner, params }) => owner.look(({ artifacts }) => artifacts.get(params.name)),

    loadArtifact: async ({ owner, params, context }) => {
      const { info, chunks } = await owner.change(({ artifacts }) => artifacts.load(params.name));
      const { size: bytes, name, mediaType } = info;
      return downloadResponse(chunks, { bytes, name, mediaType, cut: () => abortConnection(context.env) });
    },

    saveArtifact: async ({ owner, params, query, context, auditTarget }) => {
      auditTarget({ target: params.name });
      const { type, mediaType, description, metadata } = query;
      await storageQuota.admit(owner.userId, Math.max(1, Buffer.byteLength(`${description ?? ''}${metadata ?? ''}`)));
      const chunks = await uploadedChunks(context.env.incoming, (bytes) => storageQuota.admit(owner.userId, bytes));
      const facts = {
        type,
        mediaType,
        description,
        metadata: metadata === undefined ? undefined : metadataOf(metadata),
      };
      return await owner.change(({ artifacts }) => artifacts.save(params.name, chunks, facts));
    },

    deleteArtifact: async ({ owner, params, auditTarget }) => {
      auditTarget({ target: params.name });
      await owner.change(({ artifacts }) => artifacts.delete(params.name));
    },
  };
}

function metadataOf(text: string): ArtifactFacts['metadata'] {
  try {
    return ArtifactFacts.shape.metadata.parse(JSON.parse(text));
  } catch (cause) {
    throw new CellaError('INVALID_REQUEST', 'metadata: must be a JSON object.', { cause });
  }
}

interface DepsCall {
  readonly owner: NamespaceOwner;
  readonly principal: Principal;
  readonly context: RequestContext;
}

function depsHandlers(service: ServerContext): OwnedHandlers<typeof depsRoutes> {
  /** Live kernels use the new set at once. */
  const change = async ({ owner, ...call }: DepsCall, work: (deps: DepsApi) => DepsWork) => {
    await owner.prepare();
    return await withProgress(service, call, async (options) => {
      const result = await owner.change(({ deps }) => work(deps)(options));
      if (result.installed.length + (result.removed?.length ?? 0) > 0)
        await service.sessions.refreshPackages(owner.userId);
      return result;
    });
  };

  return {
    listDeps: ({ owner }) => owner.look(async ({ deps }) => ({ deps: await deps.list() })),

    /** For a session, the status is that of its kernel's Python. */
    getDepsStatus: ({ owner }) => owner.change(({ deps }) => deps.status()),

    addDeps: async ({ body: { requirements }, auditTarget, ...call }) => {
      auditTarget({ target: requirements.join(' ').slice(0, 500) });
      call.owner.requireUnlockedDeps();
      return await change(call, (deps) => (options) => deps.add(requirements, options));
    },

    removeDep: async ({ params: { name }, auditTarget, ...call }) => {
      auditTarget({ target: name });
      call.owner.requireUnlockedDeps();
      return await change(call, (deps) => (options) => deps.remove(name, options));
    },

    syncDeps: (call) => change(call, (deps) => (options) => deps.sync(options)),
  };
}

type UserRoutes = typeof userNamespaceRoutes;
type AnyCall = Call<UserRoutes[keyof UserRoutes]>;

/** Each handler under its route's name, called with the owner. */
function bindOwner(
  handlers: OwnedHandlers<UserRoutes>,
  suffix: '',
  ownerOf: (call: AnyCall) => NamespaceOwner,
): Handlers<UserRoutes>;
function bindOwner(
  handlers: OwnedHandlers<UserRoutes>,
  suffix: 'OfSession',
  ownerOf: (call: AnyCall & { readonly info: SessionInfo }) => NamespaceOwner,
): Handlers<typeof sessionNamespaceRoutes>;
function bindOwner(
  handlers: Readonly<Record<string, AnyHandler>>,
  suffix: string,
  ownerOf: (call: never) => NamespaceOwner,
): Readonly<Record<string, AnyHandler>> {
  const bound = Object.entries(handlers).map(([name, handle]) => {
    // Safe: the table pairs each handler with the route whose schemas parsed this call.
    const withOwner: AnyHandler = (call: object) => handle({ ...call, owner: ownerOf(call as never) } as never);
    return [`${name}${suffix}`, withOwner];
  });
  return Object.fromEntries(bound);
}

interface NamespacePage {
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

const MOST_IN_PAGE = 1000;
const MOST_FOUND = 100;
const FOUND = 20;

const mostFound = ({ limit = FOUND }: NamespacePage): number => Math.min(limit, MOST_FOUND);

/** The best matches, if all together are too long. */
async function foundOf<T extends { readonly name: string }>(found: readonly T[]) {
  return (await pageOf(found, {})).items;
}

/** The sort order of skills and artifacts. Tools use a locale-aware order. */
const byName = (one: { readonly name: string }, other: { readonly name: string }) => (one.name < other.name ? -1 : 1);

/** One page of items that are sorted by name. */
async function pageOf<T extends { readonly name: string }>(
  all: readonly T[],
  { after = '', limit = MOST_IN_PAGE }: NamespacePage,
) {
  const rest = after === '' ? all : all.filter(({ name }) => name > after);
  const items: T[] = [];
  let length = 0;
  for await (const one of inSlices(rest)) {
    if (items.length === limit || length >= MAX_PAGE_CHARACTERS) break;
    items.push(one);
    length += JSON.stringify(one).length;
  }
  return { items, next: nextOf(items, rest.length > items.length) };
}

/** A page may be short because its artifacts have large metadata, so this checks for more. */
async function artifactsOf(artifacts: UserNamespacesApi['artifacts'], { after, limit = MOST_IN_PAGE }: NamespacePage) {
  const items = await artifacts.list({ after, limit, enough: MAX_PAGE_CHARACTERS });
  const last = items.at(-1);
  const more = last === undefined ? [] : await artifacts.list({ after: last.name, limit: 1 });
  return { items, next: nextOf(items, more.length > 0) };
}

function nextOf(items: readonly { readonly name: string }[], isMore: boolean): { readonly next?: string } {
  const last = isMore ? items.at(-1) : undefined;
  return last ? { next: last.name } : {};
}
