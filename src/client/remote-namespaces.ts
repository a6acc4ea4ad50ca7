/** The tools, skills, artifacts and packages of a session at a server. */

import { z } from 'zod';
import { chunksOf, jsonLines } from '../lib/line-splitter.ts';
import type { RequestOptions } from '../protocol/api/route.ts';
import { ErrorBody } from '../protocol/error-body.ts';
import { type ArtifactInfo, DepsLine } from '../protocol/namespace-models.ts';
import { type PyValue, valueFromWire, valueToWire } from '../protocol/py-values.ts';
import type {
  ArtifactsApi,
  DepsApi,
  DepsResult,
  DepsStatus,
  SkillInfo,
  SkillProblem,
  SkillsApi,
  ToolCallOptions,
  ToolInfo,
  ToolProblem,
  ToolsApi,
  WorkOptions,
} from '../session/api.ts';
import { allPages, errorFromBody, hasCode, parseResponse, type SessionApiClient } from './api-client.ts';
import { aborted, unreachable } from './transport.ts';

const Value = z.json().transform((value): PyValue => valueFromWire(value));
const scalar = z.enum(['string', 'integer', 'number', 'boolean']);
const Parameter = z.object({
  name: z.string(),
  type: z.enum([...scalar.options, 'array', 'object', 'any']),
  items: scalar.optional(),
  description: z.string(),
  required: z.boolean(),
  default: Value.optional(),
  enum: z.array(Value).optional(),
  positional: z.boolean(),
  variadic: z.boolean(),
});
const parameters = z.array(Parameter);
const Tool: z.ZodType<ToolInfo> = z.object({
  name: z.string(),
  description: z.string(),
  tags: z.array(z.string()),
  kind: z.enum(['cli', 'mcp', 'http']),
  runs_on: z.enum(['sandbox', 'host']),
  requires_approval: z.boolean(),
  parameters,
  recipes: z.array(z.object({ name: z.string(), description: z.string(), parameters })),
});

export class RemoteTools implements ToolsApi {
  readonly #session: SessionApiClient;

  constructor(session: SessionApiClient) {
    this.#session = session;
  }

  async list(): Promise<readonly ToolInfo[]> {
    return await allPages(async (after) => {
      const { tools, next } = await this.#session.call('listTools', { query: { after } });
      return { items: tools.map(toTool), next };
    });
  }

  async search(q: string, { limit }: { readonly limit?: number } = {}): Promise<readonly ToolInfo[]> {
    return (await this.#session.call('listTools', { query: { q, limit } })).tools.map(toTool);
  }

  async describe(name: string): Promise<ToolInfo> {
    return toTool(await this.#session.call('getTool', { params: { name } }));
  }

  async call(name: string, named: Record<string, PyValue>, options: ToolCallOptions = {}): Promise<PyValue> {
    const { recipe, positional = [], approved, signal } = options;
    const values = Object.fromEntries(Object.entries(named).map(([key, value]) => [key, valueToWire(value)]));
    const body = { recipe, positional: positional.map(valueToWire), named: values, approved };
    return valueFromWire((await this.#session.call('callTool', { params: { name }, body, signal })).value);
  }

  /** For administrators: a definition may name programs of the server's machine. */
  async add(
    yaml: string,
    { replace, where }: { readonly replace?: boolean; readonly where?: string } = {},
  ): Promise<ToolInfo> {
    return toTool(await this.#session.call('addTool', { body: { yaml, replace, where } }));
  }

  async remove(name: string): Promise<boolean> {
    return (await this.#session.call('removeTool', { params: { name } })).removed;
  }

  async problems(): Promise<readonly ToolProblem[]> {
    return (await this.#session.call('listToolProblems')).problems;
  }
}

export function toTool(value: unknown): ToolInfo {
  return parseResponse(Tool, value, 'tools');
}

const Skill = z.object({
  name: z.string(),
  description: z.string(),
  parameters: z.array(
    z.object({
      name: z.string(),
      kind: z.enum(['positional_only', 'positional_or_keyword', 'var_positional', 'keyword_only', 'var_keyword']),
      annotation: z.string().optional(),
      default: z.string().optional(),
      required: z.boolean(),
    }),
  ),
  updatedAt: z.number(),
  shared: z.literal(true).optional(),
});
const WithSource = Skill.extend({ source: z.string() });

export class RemoteSkills implements SkillsApi {
  readonly #session: SessionApiClient;

  constructor(session: SessionApiClient) {
    this.#session = session;
  }

  async list(): Promise<readonly SkillInfo[]> {
    return await allPages(async (after) => {
      const { skills, next } = await this.#session.call('listSkills', { query: { after } });
      return { items: skills.map(toSkill), next };
    });
  }

  async get(name: string): Promise<SkillInfo & { readonly source: string }> {
    return parseResponse(WithSource, await this.#session.call('getSkill', { params: { name } }), 'skills');
  }

  async search(q: string, { limit }: { readonly limit?: number } = {}): Promise<readonly SkillInfo[]> {
    return (await this.#session.call('listSkills', { query: { q, limit } })).skills.map(toSkill);
  }

  async create(
    { name, source, description }: Parameters<SkillsApi['create']>[0],
    { replace }: { readonly replace?: boolean } = {},
  ): Promise<SkillInfo> {
    return toSkill(
      await this.#session.call('createSkill', {
        body: { name, source, description: description ?? undefined, replace },
      }),
    );
  }

  async delete(name: string): Promise<void> {
    await this.#session.call('deleteSkill', { params: { name } });
  }

  async problems(): Promise<readonly SkillProblem[]> {
    const { problems } = await this.#session.call('listSkillProblems');
    return problems.map(({ line, ...problem }) => ({ ...problem, line }));
  }
}

export function toSkill(value: unknown): SkillInfo {
  return parseResponse(Skill, value, 'skills');
}

export class RemoteArtifacts implements ArtifactsApi {
  readonly #session: SessionApiClient;

  constructor(session: SessionApiClient) {
    this.#session = session;
  }

  async list({ after: from, limit }: Parameters<ArtifactsApi['list']>[0] = {}): Promise<readonly ArtifactInfo[]> {
    if (limit !== undefined) {
      return (await this.#session.call('listArtifacts', { query: { after: from, limit } })).artifacts;
    }
    return await allPages(async (after = from) => {
      const { artifacts, next } = await this.#session.call('listArtifacts', { query: { after } });
      return { items: artifacts, next };
    });
  }

  async get(name: string): Promise<ArtifactInfo> {
    return await this.#session.call('getArtifact', { params: { name } });
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
    return await this.#session.call('saveArtifact', { params: { name }, query, bytes: content });
  }

  async load(name: string): Promise<{ readonly info: ArtifactInfo; readonly chunks: AsyncIterable<Uint8Array> }> {
    const info = await this.get(name);
    const response = await this.#session.open('loadArtifact', { params: { name } });
    return { info, chunks: telling(chunksOf(response), this.#session.api.address) };
  }

  async delete(name: string): Promise<void> {
    await this.#session.call('deleteArtifact', { params: { name } });
  }
}

async function* telling(chunks: AsyncIterable<Uint8Array>, where: string): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw unreachable(where, error);
  }
}

const NDJSON = 'application/x-ndjson';

export class RemoteDeps implements DepsApi {
  readonly #session: SessionApiClient;

  constructor(session: SessionApiClient) {
    this.#session = session;
  }

  async list(): Promise<readonly string[]> {
    return (await this.#session.call('listDeps')).deps;
  }

  async status(): Promise<DepsStatus> {
    return await this.#session.call('getDepsStatus');
  }

  async add(requirements: string | readonly string[], options: WorkOptions = {}): Promise<DepsResult> {
    const body = { requirements: [requirements].flat() };
    return await this.#change(options, (request) => this.#session.open('addDeps', { body, ...request }));
  }

  async remove(name: string, options: WorkOptions = {}): Promise<DepsResult> {
    return await this.#change(options, (request) => this.#session.open('removeDep', { params: { name }, ...request }));
  }

  async sync(options: WorkOptions = {}): Promise<DepsResult> {
    return await this.#change(options, (request) => this.#session.open('syncDeps', request));
  }

  /** The result is the last of the lines. */
  async #change(
    { signal, onProgress }: WorkOptions,
    send: (request: RequestOptions) => Promise<Response>,
  ): Promise<DepsResult> {
    const { address } = this.#session.api;
    const lines = jsonLines(await send({ signal, accept: NDJSON }));
    while (true) {
      const { value: line, done } = await lines.next().catch((cause) => {
        throw signal?.aborted ? aborted() : unreachable(address, cause);
      });
      if (done) throw unreachable(address, new Error('the answer has no end'));
      const failure = ErrorBody.safeParse(line);
      if (failure.success) throw errorFromBody(failure.data.error);
      const item = parseResponse(DepsLine, line, 'deps');
      if (item.type === 'result') return item.result;
      onProgress?.(item.text);
    }
  }
}
