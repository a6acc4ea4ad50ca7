/** The tools that code can call: found, described, checked, approved and run, all of it on the host. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import type { TextStore } from '../../storage/contract.ts';
import { type CallContext, type Methods, method } from '../contract.ts';
import { checkQuery } from '../search/query-limit.ts';
import { type CallMeans, type ToolCall, ToolCalls } from './calls.ts';
import { type Catalog, CatalogReader, type ToolProblem } from './catalog.ts';
import type { ToolDefinition } from './definition.ts';
import { DEFAULT_PLACE, type HostPlace } from './host-command.ts';
import { infoOf, infoValue, type ToolInfo } from './info.ts';
import { McpServers } from './mcp-servers.ts';
import { searchTools } from './search.ts';

export interface ToolsOptions extends CallMeans {
  readonly store: TextStore;
  /** Folders with more definitions: `*.yaml` and `*.yml`. */
  readonly folders: readonly string[];
  /** Where MCP servers that are programs run. */
  readonly place?: Partial<HostPlace>;
}

export interface AddOptions {
  /** In place of the one that has the name. */
  readonly replace?: boolean;
  /** Where a person finds the text, for errors: a path. */
  readonly where?: string;
}

const MOST_FOUND = 100;

export class Tools {
  readonly #options: ToolsOptions;
  readonly #reader: CatalogReader;
  readonly #servers: McpServers;
  readonly #calls: ToolCalls;
  #catalog: Catalog | undefined;

  constructor(options: ToolsOptions) {
    this.#options = options;
    this.#reader = new CatalogReader(options.store, options.folders);
    this.#servers = new McpServers({ ...DEFAULT_PLACE, ...options.place }, options.credentials);
    this.#calls = new ToolCalls(options, this.#servers);
  }

  async list(): Promise<ToolInfo[]> {
    const { tools } = await this.#read();
    const infos = await Promise.all([...tools.values()].map((tool) => this.#info(tool)));
    return infos.sort((a, b) => a.name.localeCompare(b.name));
  }

  /** Best first. */
  async search(query: string, options: { readonly limit?: number } = {}): Promise<ToolInfo[]> {
    checkQuery(query, 'tools');
    return await searchTools(await this.list(), query, options.limit ?? 10);
  }

  async describe(name: string): Promise<ToolInfo> {
    return await this.#info(await this.#find(name));
  }

  /** Definitions that cannot be used, and why. */
  async problems(): Promise<readonly ToolProblem[]> {
    return (await this.#read()).problems;
  }

  /** Checks the definition and keeps it in the storage. NAME_TAKEN where there is one, unless it is to be replaced. */
  async add(yaml: string, options: AddOptions = {}): Promise<ToolInfo> {
    const { parseTool } = await import('./parse.ts');
    const tool = parseTool(yaml, options.where ?? 'the given definition');
    const taken = new CellaError('NAME_TAKEN', `There is a tool ${tool.name} already.`, {
      details: { name: tool.name },
    });
    const replace = options.replace === true;
    if (!replace && (await this.#read()).tools.has(tool.name)) throw taken;
    if (!(await this.#options.store.put(tool.name, yaml, { ifAbsent: !replace }))) throw taken;
    return infoOf(tool);
  }

  /** Takes a definition out of the storage. False where it has none of that name. */
  async remove(name: string): Promise<boolean> {
    return await this.#options.store.delete(name);
  }

  async call(call: ToolCall, context: CallContext): Promise<PyValue> {
    return await this.#calls.perform(await this.#find(call.name), call, context);
  }

  methods(): Methods {
    const Value = z.custom<PyValue>((value) => value !== undefined);
    const Call = z.object({
      name: z.string(),
      recipe: z.string().nullish(),
      positional: z.array(Value),
      // Not a record of zod's, which leaves out `__proto__` without a word.
      named: z.custom<Record<string, PyValue>>(isDict),
    });
    return {
      'tools.list': method(z.object({}), async () => (await this.list()).map(infoValue)),
      'tools.search': method(
        z.object({ query: z.string(), limit: z.int().min(1).max(MOST_FOUND).nullish() }),
        async ({ query, limit }) => (await this.search(query, { limit: limit ?? 10 })).map(infoValue),
      ),
      'tools.describe': method(z.object({ name: z.string() }), async ({ name }) =>
        infoValue(await this.describe(name)),
      ),
      'tools.call': method(Call, ({ recipe, ...call }, context) =>
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
    if (tool.type !== 'mcp') return infoOf(tool);
    try {
      return infoOf(tool, await this.#servers.recipes(tool));
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
      // One server that does not answer must not hide the other tools.
      return {
        ...infoOf(tool),
        description: `${tool.description}\n[Its tools are not known: ${error.message}]`.trim(),
      };
    }
  }
}

function isDict(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
