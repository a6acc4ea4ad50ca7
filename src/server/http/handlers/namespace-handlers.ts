/** Handlers for tools, skills, artifacts and packages. */

import type {
  artifactRoutes,
  depsRoutes,
  namespaceRoutes,
  skillRoutes,
  toolRoutes,
} from '../../../protocol/api/namespace-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { ArtifactFacts, type NamespaceName } from '../../../protocol/namespace-models.ts';
import { valueFromWire } from '../../../protocol/py-values.ts';
import type { SessionInfo } from '../../../protocol/session-info.ts';
import type { DepsApi, NamespacesApi } from '../../../session/api.ts';
import { toWireInSlices } from '../../json-pieces.ts';
import { wakeSession } from '../../quotas/admission.ts';
import { downloadResponse, uploadedChunks } from '../bodies.ts';
import { type DepsWork, withProgress } from '../event-responses.ts';
import { abortConnection, type RequestContext } from '../request-context.ts';
import type { Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';

/** To look at what there is: no kernel wakes for that. */
async function look<T>(
  { host }: ServerContext,
  { id, ownerId }: SessionInfo,
  work: (namespaces: NamespacesApi) => Promise<T>,
): Promise<T> {
  await using namespaces = await host.namespaces(ownerId, id);
  return await work(namespaces);
}

export function namespaceHandlers({ host }: ServerContext): Handlers<typeof namespaceRoutes> {
  return {
    listNamespaces: async ({ principal, query: { only, ...page } }) => {
      if (page.after !== undefined && only === undefined) {
        throw new CellaError('INVALID_REQUEST', 'after: goes on in one kind of things. Say which by `only`.');
      }
      await using things = await host.namespaces(principal.userId);
      return await contentsOf(things, only, page);
    },
  };
}

export function toolHandlers(service: ServerContext): Handlers<typeof toolRoutes> {
  return {
    listTools: ({ info, query: { q, ...page } }) =>
      look(service, info, async ({ tools }) => {
        if (q !== undefined) return { tools: (await tools.search(q, { limit: foundOf(page) })).map(plain) };
        const { items, next } = pageOf((await tools.list()).toSorted(byName), page);
        return { tools: items.map(plain), ...next };
      }),

    listToolProblems: ({ info }) => look(service, info, async ({ tools }) => ({ problems: await tools.problems() })),

    addTool: async ({ info, body: { yaml, replace = false, where }, auditTarget }) => {
      const added = await (await wakeSession(service, info)).tools.add(yaml, {
        replace,
        where,
      });
      auditTarget({ target: added.name });
      return plain(added);
    },

    removeTool: async ({ info, params, auditTarget }) => {
      auditTarget({ target: params.name });
      return { removed: await (await wakeSession(service, info)).tools.remove(params.name) };
    },

    getTool: ({ info, params }) => look(service, info, async ({ tools }) => plain(await tools.describe(params.name))),

    callTool: async ({ info, params, body, auditTarget, context }) => {
      auditTarget({ target: params.name });
      const { recipe, positional = [], named = {}, approved = false } = body;
      const values = Object.fromEntries(Object.entries(named).map(([name, value]) => [name, valueFromWire(value)]));
      const value = await (await wakeSession(service, info)).tools.call(params.name, values, {
        recipe,
        positional: positional.map(valueFromWire),
        approved,
        signal: context.req.raw.signal,
      });
      return { value: await toWireInSlices(value) };
    },
  };
}

export function skillHandlers(service: ServerContext): Handlers<typeof skillRoutes> {
  const { storageQuota } = service;
  return {
    listSkills: ({ info, query: { q, ...page } }) =>
      look(service, info, async ({ skills }) => {
        if (q !== undefined) return { skills: (await skills.search(q, { limit: foundOf(page) })).map(plain) };
        const { items, next } = pageOf(await skills.list(), page);
        return { skills: items.map(plain), ...next };
      }),

    listSkillProblems: ({ info }) => look(service, info, async ({ skills }) => ({ problems: await skills.problems() })),

    getSkill: ({ info, params }) => look(service, info, async ({ skills }) => plain(await skills.get(params.name))),

    createSkill: async ({ info, body: { name, source, description, replace = false }, auditTarget }) => {
      auditTarget({ target: name });
      await storageQuota.admit(info.ownerId, Buffer.byteLength(source));
      const skill = { name, source, description };
      return plain(await (await wakeSession(service, info)).skills.create(skill, { replace }));
    },

    deleteSkill: async ({ info, params, auditTarget }) => {
      auditTarget({ target: params.name });
      await (await wakeSession(service, info)).skills.delete(params.name);
    },
  };
}

export function artifactHandlers(service: ServerContext): Handlers<typeof artifactRoutes> {
  const { storageQuota } = service;
  return {
    listArtifacts: ({ info, query }) =>
      look(service, info, async ({ artifacts }) => {
        const { items, next } = await artifactsOf(artifacts, query);
        return { artifacts: items, ...next };
      }),

    getArtifact: ({ info, params }) => look(service, info, ({ artifacts }) => artifacts.get(params.name)),

    loadArtifact: async ({ info, params, context }) => {
      const { info: artifact, chunks } = await (await wakeSession(service, info)).artifacts.load(params.name);
      const { size: bytes, name, mediaType } = artifact;
      return downloadResponse(chunks, { bytes, name, mediaType, cut: () => abortConnection(context.env) });
    },

    saveArtifact: async ({ info, params, query, context, auditTarget }) => {
      auditTarget({ target: params.name });
      const { type, mediaType, description, metadata } = query;
      const chunks = await uploadedChunks(context.env.incoming, (bytes) => storageQuota.admit(info.ownerId, bytes));
      const facts = {
        type,
        mediaType,
        description,
        metadata: metadata === undefined ? undefined : metadataOf(metadata),
      };
      return await (await wakeSession(service, info)).artifacts.save(params.name, chunks, facts);
    },

    deleteArtifact: async ({ info, params, auditTarget }) => {
      auditTarget({ target: params.name });
      await (await wakeSession(service, info)).artifacts.delete(params.name);
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

export function depsHandlers(service: ServerContext): Handlers<typeof depsRoutes> {
  /** Kernels that live find what has changed, too. */
  const change = async (info: SessionInfo, context: RequestContext, work: (deps: DepsApi) => DepsWork) => {
    const { deps } = await wakeSession(service, info);
    return await withProgress(service, context, async (options) => {
      const result = await work(deps)(options);
      if (result.installed.length + (result.removed?.length ?? 0) > 0) await service.host.refreshPackages(info.ownerId);
      return result;
    });
  };

  return {
    listDeps: ({ info }) => look(service, info, async ({ deps }) => ({ deps: await deps.list() })),

    getDepsStatus: async ({ info }) => (await wakeSession(service, info)).deps.status(),

    addDeps: async ({ info, body: { requirements }, auditTarget, context }) => {
      auditTarget({ target: requirements.join(' ').slice(0, 500) });
      checkUnlocked(info);
      return await change(info, context, (deps) => (options) => deps.add(requirements, options));
    },

    removeDep: async ({ info, params: { name }, auditTarget, context }) => {
      auditTarget({ target: name });
      checkUnlocked(info);
      return await change(info, context, (deps) => (options) => deps.remove(name, options));
    },

    syncDeps: async ({ info, context }) => change(info, context, (deps) => (options) => deps.sync(options)),
  };
}

function checkUnlocked({ settings }: SessionInfo): void {
  if (settings.allowRuntimeDeps !== false) return;
  throw new CellaError('DEPS_LOCKED', 'The packages of this session are locked.');
}

/** All that a user has, or one kind of it: a page of each. */
async function contentsOf(
  { tools, skills, artifacts, deps }: NamespacesApi,
  only: NamespaceName | undefined,
  page: NamespacePage,
) {
  const wants = (kind: NamespaceName) => only === undefined || only === kind;
  const [ofTools, ofSkills, ofArtifacts] = [
    pageOf(wants('tools') ? (await tools.list()).toSorted(byName) : [], page),
    pageOf(wants('skills') ? await skills.list() : [], page),
    wants('artifacts') ? await artifactsOf(artifacts, page) : pageOf([], page),
  ];
  const next = { tools: ofTools.next.next, skills: ofSkills.next.next, artifacts: ofArtifacts.next.next };
  const more = Object.entries(next).filter(([, name]) => name !== undefined);
  return {
    tools: ofTools.items.map(plain),
    toolProblems: wants('tools') ? await tools.problems() : [],
    skills: ofSkills.items.map(plain),
    skillProblems: wants('skills') ? await skills.problems() : [],
    artifacts: ofArtifacts.items,
    deps: wants('deps') ? await deps.list() : [],
    ...(more.length > 0 && { next: Object.fromEntries(more) }),
  };
}

interface NamespacePage {
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

const MOST_IN_PAGE = 1000;
const MOST_FOUND = 100;
const FOUND = 20;

const foundOf = ({ limit = FOUND }: NamespacePage): number => Math.min(limit, MOST_FOUND);

/** As skills and artifacts are; tools are listed as people sort. */
const byName = (one: { readonly name: string }, other: { readonly name: string }) => (one.name < other.name ? -1 : 1);

/** Of what is there by name. */
function pageOf<T extends { readonly name: string }>(
  all: readonly T[],
  { after = '', limit = MOST_IN_PAGE }: NamespacePage,
) {
  const rest = after === '' ? all : all.filter(({ name }) => name > after);
  return { items: rest.slice(0, limit), next: nextOf(rest, limit) };
}

/** One more than asked for tells whether there is another page. */
async function artifactsOf(artifacts: NamespacesApi['artifacts'], { after, limit = MOST_IN_PAGE }: NamespacePage) {
  const found = await artifacts.list({ after, limit: limit + 1 });
  return { items: found.slice(0, limit), next: nextOf(found, limit) };
}

function nextOf(rest: readonly { readonly name: string }[], limit: number): { readonly next?: string } {
  const last = rest.length > limit ? rest[limit - 1] : undefined;
  return last ? { next: last.name } : {};
}

/** As an object of the wire: what else it tells goes along. */
function plain<T extends object>(value: T): Record<string, unknown> & T {
  const more: Record<string, unknown> = {};
  return Object.assign(more, value);
}
