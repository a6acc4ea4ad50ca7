/** Tools, skills, artifacts and packages at a server, of a user or of a session. */

import { chunksOf, jsonLines } from '../lib/line-splitter.ts';
import type { RequestOptions } from '../protocol/api/route.ts';
import {
  type ArtifactInfo,
  DepsLine,
  type DepsResult,
  type DepsStatus,
  type NewSkill,
  type Skill,
  type SkillInfo,
  type SkillProblem,
  type ToolInfo,
  type ToolProblem,
} from '../protocol/namespace-models.ts';
import { ErrorBody } from '../protocol/parse.ts';
import { type PyValue, valueFromWire, valueToWire } from '../protocol/py-values.ts';
import type {
  ArtifactsApi,
  DepsApi,
  SkillsApi,
  ToolCallOptions,
  ToolCatalogApi,
  ToolsApi,
  WorkOptions,
} from '../session/api.ts';
import {
  allPages,
  errorFromBody,
  hasCode,
  type NamespaceClient,
  parseResponse,
  type SessionApiClient,
} from './api-client.ts';
import { aborted, serverUnreachable } from './transport.ts';

/** The server's maximum page size. */
const MOST_IN_PAGE = 1000;

abstract class RemoteNamespace {
  protected readonly routes: NamespaceClient;

  constructor(routes: NamespaceClient) {
    this.routes = routes;
  }
}

export class RemoteTools extends RemoteNamespace implements ToolCatalogApi {
  async list(): Promise<readonly ToolInfo[]> {
    return await allPages(async (after) => {
      const { tools, next } = await this.routes.call('listTools', { query: { after } });
      return { items: tools, next };
    });
  }

  async search(q: string, { limit }: { readonly limit?: number } = {}): Promise<readonly ToolInfo[]> {
    return (await this.routes.call('listTools', { query: { q, limit } })).tools;
  }

  async describe(name: string): Promise<ToolInfo> {
    return await this.routes.call('getTool', { params: { name } });
  }

  /** Only for administrators: a definition can run programs on the server's machine. */
  async create(
    yaml: string,
    { replace, where }: { readonly replace?: boolean; readonly where?: string } = {},
  ): Promise<ToolInfo> {
    return await this.routes.call('createTool', { body: { yaml, replace, where } });
  }

  async delete(name: string): Promise<void> {
    await this.routes.call('deleteTool', { params: { name } });
  }

  async problems(): Promise<readonly ToolProblem[]> {
    return (await this.routes.call('listToolProblems')).problems;
  }
}

/** The tools of a session, which it can call. */
export class RemoteSessionTools extends RemoteTools implements ToolsApi {
  readonly #session: SessionApiClient;

  constructor(session: SessionApiClient) {
    super(session.namespaces);
    this.#session = session;
  }

  async call(name: string, named: Record<string, PyValue>, options: ToolCallOptions = {}): Promise<PyValue> {
    const { recipe, positional = [], approved, signal } = options;
    const values = Object.fromEntries(Object.entries(named).map(([key, value]) => [key, valueToWire(value)]));
    const body = { recipe, positional: positional.map(valueToWire), named: values, approved };
    return valueFromWire((await this.#session.call('callTool', { params: { name }, body, signal })).value);
  }
}

export class RemoteSkills extends RemoteNamespace implements SkillsApi {
  async list(): Promise<readonly SkillInfo[]> {
    return await allPages(async (after) => {
      const { skills, next } = await this.routes.call('listSkills', { query: { after } });
      return { items: skills, next };
    });
  }

  async get(name: string): Promise<Skill> {
    return await this.routes.call('getSkill', { params: { name } });
  }

  async search(q: string, { limit }: { readonly limit?: number } = {}): Promise<readonly SkillInfo[]> {
    return (await this.routes.call('listSkills', { query: { q, limit } })).skills;
  }

  async create(
    { name, source, description }: NewSkill,
    { replace }: { readonly replace?: boolean } = {},
  ): Promise<SkillInfo> {
    return await this.routes.call('createSkill', { body: { name, source, description, replace } });
  }

  async delete(name: string): Promise<void> {
    await this.routes.call('deleteSkill', { params: { name } });
  }

  async problems(): Promise<readonly SkillProblem[]> {
    return (await this.routes.call('listSkillProblems')).problems;
  }
}

export class RemoteArtifacts extends RemoteNamespace implements ArtifactsApi {
  async list({
    after: from,
    limit,
    enough,
  }: Parameters<ArtifactsApi['list']>[0] = {}): Promise<readonly ArtifactInfo[]> {
    let left = limit ?? Number.POSITIVE_INFINITY;
    return await allPages(async (after = from) => {
      const query = { after, limit: left < MOST_IN_PAGE ? left : undefined };
      const { artifacts, next } = await this.routes.call('listArtifacts', { query });
      left -= artifacts.length;
      return { items: artifacts, next: left > 0 && enough === undefined ? next : undefined };
    });
  }

  async get(name: string): Promise<ArtifactInfo> {
    return await this.routes.call('getArtifact', { params: { name } });
  }

  async exists(name: string): Promise<boolean> {
    try {
      await this.get(name);
      return true;
    } catch (error) {
      if (hasCode(error, 'ARTIFACT_NOT_FOUND')) return false;
      throw error;
    }
  }

  async save(
    name: string,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    { type, mediaType, description, metadata }: Parameters<ArtifactsApi['save']>[2],
  ): Promise<ArtifactInfo> {
    const query = { type, mediaType, description, metadata: metadata && JSON.stringify(metadata) };
    return await this.routes.call('saveArtifact', { params: { name }, query, bytes: content });
  }

  async load(name: string): Promise<{ readonly info: ArtifactInfo; readonly chunks: AsyncIterable<Uint8Array> }> {
    const info = await this.get(name);
    const response = await this.routes.open('loadArtifact', { params: { name } });
    return { info, chunks: withServerErrors(chunksOf(response), this.routes.address) };
  }

  async delete(name: string): Promise<void> {
    await this.routes.call('deleteArtifact', { params: { name } });
  }
}

/** Names the server in the error of a broken connection. */
async function* withServerErrors(chunks: AsyncIterable<Uint8Array>, where: string): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw serverUnreachable(where, error);
  }
}

const NDJSON = 'application/x-ndjson';

export class RemoteDeps extends RemoteNamespace implements DepsApi {
  async list(): Promise<readonly string[]> {
    return (await this.routes.call('listDeps')).deps;
  }

  async status(): Promise<DepsStatus> {
    return await this.routes.call('getDepsStatus');
  }

  async add(requirements: string | readonly string[], options: WorkOptions = {}): Promise<DepsResult> {
    const body = { requirements: [requirements].flat() };
    return await this.#change(options, (request) => this.routes.open('addDeps', { body, ...request }));
  }

  async remove(name: string, options: WorkOptions = {}): Promise<DepsResult> {
    return await this.#change(options, (request) => this.routes.open('removeDep', { params: { name }, ...request }));
  }

  async sync(options: WorkOptions = {}): Promise<DepsResult> {
    return await this.#change(options, (request) => this.routes.open('syncDeps', request));
  }

  /** The last line of the response is the result. */
  async #change(
    { signal, onProgress }: WorkOptions,
    send: (request: RequestOptions) => Promise<Response>,
  ): Promise<DepsResult> {
    const { address } = this.routes;
    const lines = jsonLines(await send({ signal, accept: NDJSON }));
    while (true) {
      const { value: line, done } = await lines.next().catch((cause) => {
        throw signal?.aborted ? aborted() : serverUnreachable(address, cause);
      });
      if (done) throw serverUnreachable(address, new Error('the response is incomplete'));
      const failure = ErrorBody.safeParse(line);
      if (failure.success) throw errorFromBody(failure.data.error);
      const item = parseResponse(DepsLine, line, 'deps');
      if (item.type === 'result') return item.result;
      onProgress?.(item.text);
    }
  }
}
