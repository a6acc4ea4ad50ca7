/** The tools that code can call. The host finds, describes, checks, approves and runs them. */

import { z } from 'zod';
import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ToolInfo, ToolProblem } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { TextStore } from '../../storage/contract.ts';
import { checkQuery, type HostMethods, hostMethod, type NamespaceCallContext } from '../host-methods.ts';
import { type ToolCall, ToolCaller, type ToolRuntime } from './call-tool.ts';
import { DEFAULT_HOST_OPTIONS, type HostCommandOptions } from './host-command.ts';
import { McpServers } from './mcp-servers.ts';
import { type ToolDefinition, toolInfo, toPyValue } from './tool-definition.ts';
import { type Catalog, ToolDefinitions } from './tool-definitions.ts';

export interface ToolsOptions extends ToolRuntime {
  readonly store: TextStore;
  /** Folders with more definitions: `*.yaml` and `*.yml`. */
  readonly folders: readonly string[];
  /** The host for MCP servers that are programs. */
  readonly hostOptions?: Partial<HostCommandOptions>;
}

interface CreateOptions {
  /** Replaces a definition that has the name. */
  readonly replace?: boolean;
  /** The path of the text, for errors. */
  readonly where?: string;
}

const MOST_FOUND = 100;

export class Tools {
  readonly #options: ToolsOptions;
  readonly #reader: ToolDefinitions;
  readonly #servers: McpServers;
  readonly #calls: ToolCaller;
  #catalog: Catalog | undefined;

  constructor(options: ToolsOptions) {
    this.#options = options;
    this.#reader = new ToolDefinitions(options.store, options.folders);
    this.#servers = new McpServers({ ...DEFAULT_HOST_OPTIONS, ...options.hostOptions }, options.credentials);
    this.#calls = new ToolCaller(options, this.#servers);
  }

  async list(): Promise<ToolInfo[]> {
    const { tools } = await this.#read();
    const infos = await Promise.all([...tools.values()].map((tool) => this.#info(tool)));
    return infos.sort((a, b) => a.name.localeCompare(b.name));
  }

  /** Matching tools, best first. */
  async search(query: string, options: { readonly limit?: number } = {}): Promise<ToolInfo[]> {
    checkQuery(query, 'tools');
    return await searchTools(await this.list(), query, options.limit ?? 10);
  }

  async describe(name: string): Promise<ToolInfo> {
    return await this.#info(await this.#find(name));
  }

  /** Definitions that cannot be used, with reasons. */
  async problems(): Promise<readonly ToolProblem[]> {
    return (await this.#read()).problems;
  }

  /** Checks and stores a definition. Throws NAME_TAKEN if the name is in use, unless `replace` is set. */
  async create(yaml: string, options: CreateOptions = {}): Promise<ToolInfo> {
    const { parseTool } = await import('./parse-tool.ts');
    const tool = parseTool(yaml, options.where ?? 'the given definition');
    const taken = new CellaError('NAME_TAKEN', `There is a tool ${tool.name} already.`, {
      details: { name: tool.name },
    });
    const replace = options.replace === true;
    if (!replace && (await this.#read()).tools.has(tool.name)) throw taken;
    if (!(await this.#options.store.put(tool.name, yaml, { ifAbsent: !replace }))) throw taken;
    return toolInfo(tool);
  }

  /** Deletes a definition from the storage. Throws TOOL_NOT_FOUND if there is none of this name. */
  async delete(name: string): Promise<void> {
    if (await this.#options.store.delete(name)) return;
    const inFolder = (await this.#read()).tools.has(name);
    const why = inFolder ? ' It is defined in a folder of --tools: delete its file there.' : '';
    const message = `The storage has no tool ${JSON.stringify(name.slice(0, 80))}.${why}`;
    throw new CellaError('TOOL_NOT_FOUND', message, { details: { name } });
  }

  async call(call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    return await this.#calls.perform(await this.#find(call.name), call, context);
  }

  methods(): HostMethods {
    const Value = z.custom<PyValue>((value) => value !== undefined);
    const Call = z.object({
      name: z.string(),
      recipe: z.string().nullish(),
      positional: z.array(Value),
      // Not a zod record, which silently drops `__proto__`.
      named: z.custom<Record<string, PyValue>>(isDict),
    });
    return {
      'tools.list': hostMethod(z.object({}), async () => (await this.list()).map(toPyValue)),
      'tools.search': hostMethod(
        z.object({ query: z.string(), limit: z.int().min(1).max(MOST_FOUND).nullish() }),
        async ({ query, limit }) => (await this.search(query, { limit: limit ?? 10 })).map(toPyValue),
      ),
      'tools.describe': hostMethod(z.object({ name: z.string() }), async ({ name }) =>
        toPyValue(await this.describe(name)),
      ),
      'tools.call': hostMethod(Call, ({ recipe, ...call }, context) =>
        this.call({ ...call, recipe: recipe ?? undefined }, context),
      ),
    };
  }

  /** Ends the MCP servers. May be called again. */
  async close(): Promise<void> {
    await this.#servers.close();
  }

  async #read(): Promise<Catalog> {
    const catalog = await this.#reader.catalog();
    if (catalog !== this.#catalog) this.#servers.retain(catalog.tools);
    this.#catalog = catalog;
    return catalog;
  }

  async #find(name: string): Promise<ToolDefinition> {
    const { tools, problems } = await this.#read();
    const tool = tools.get(name.normalize('NFKC'));
    if (tool !== undefined) return tool;
    const broken = problems.find((problem) => problem.name === name);
    if (broken !== undefined) throw new CellaError('TOOL_INVALID', broken.message, { details: { ...broken } });
    const known = [...tools.keys()].sort();
    const list = known.length === 0 ? 'There are none.' : `There are ${known.join(', ')}.`;
    const message = `There is no tool ${JSON.stringify(name.slice(0, 80))}. ${list.slice(0, 2000)}`;
    throw new CellaError('TOOL_NOT_FOUND', message, { details: { name, known } });
  }

  async #info(tool: ToolDefinition): Promise<ToolInfo> {
    if (tool.type !== 'mcp') return toolInfo(tool);
    try {
      return toolInfo(tool, await this.#servers.recipes(tool));
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
      // If one server does not answer, the other tools are still listed.
      return {
        ...toolInfo(tool),
        description: `${tool.description}\n[Its tools are unknown: ${error.message}]`.trim(),
      };
    }
  }
}

function isDict(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** The most words of a query. */
const MOST_WORDS = 64;
/** Of a text: as long as the description of a definition may be. MCP servers send longer ones. */
const LONGEST_TEXT = 20_000;
/** The weight of a word by where it was found. */
const WEIGHTS = { name: 10, tags: 6, recipes: 4, description: 3, parameters: 1 } as const;

/** Tools that share a word with the query, best first. */
async function searchTools(infos: readonly ToolInfo[], query: string, limit: number): Promise<ToolInfo[]> {
  const wanted = [...new Set(queryWords(query))].slice(0, MOST_WORDS);
  if (wanted.length === 0) return infos.slice(0, limit);
  const scored: { readonly info: ToolInfo; readonly score: number }[] = [];
  for (const info of infos) scored.push({ info, score: await score(info, wanted) });
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || a.info.name.localeCompare(b.info.name))
    .slice(0, limit)
    .map(({ info }) => info);
}

async function score(info: ToolInfo, wanted: readonly string[]): Promise<number> {
  const rated = wanted.map((word) => ({
    word,
    scores: { name: 0, tags: 0, recipes: 0, description: 0, parameters: 0 },
  }));
  for await (const [place, text] of inSlices(textsOf(info))) {
    for (const found of new Set(queryWords(text.slice(0, LONGEST_TEXT)))) {
      for (const { word, scores } of rated) {
        scores[place] = Math.max(scores[place], WEIGHTS[place] * likeness(word, found));
      }
    }
  }
  let total = 0;
  for (const { scores } of rated) {
    const all = Object.values(scores);
    // A word in several places counts more than in one.
    total += Math.max(...all) + 0.1 * all.reduce((sum, one) => sum + one, 0);
  }
  return total;
}

function* textsOf(info: ToolInfo): Generator<[place: keyof typeof WEIGHTS, text: string]> {
  yield ['name', info.name];
  for (const tag of info.tags) yield ['tags', tag];
  yield ['description', info.description];
  for (const { name, description } of info.recipes) yield ['recipes', `${name} ${description}`];
  for (const { parameters } of [info, ...info.recipes]) {
    for (const { name, description } of parameters) yield ['parameters', `${name} ${description}`];
  }
}

/** Whether words are equal, begin alike (`search`, `searching`), or one contains the other. */
function likeness(wanted: string, found: string): number {
  if (wanted === found) return 1;
  const shorter = Math.min(wanted.length, found.length);
  if (shorter < 3) return 0;
  if (wanted.startsWith(found) || found.startsWith(wanted)) return 0.7;
  return shorter >= 4 && (found.includes(wanted) || wanted.includes(found)) ? 0.3 : 0;
}

function queryWords(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}
