/** The tools that are defined in storage and in folders of YAML files. They are read again only after a change. */

import type { Stats } from 'node:fs';
import { opendir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { giveWay, inSlices } from '../../lib/event-loop.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ToolProblem } from '../../protocol/namespace-models.ts';
import type { StoredText, TextStore } from '../../storage/contract.ts';
import { MOST_YAML_BYTES, type ToolDefinition } from './tool-definition.ts';

export interface Catalog {
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly problems: readonly ToolProblem[];
}

type ParseTool = (text: string, where: string) => ToolDefinition;

type ParsedDefinition = { readonly text: string | undefined } & (
  | { readonly tool: ToolDefinition }
  | { readonly error: CellaError }
);

export class ToolDefinitions {
  readonly #store: TextStore;
  readonly #folders: readonly string[];
  #read: { readonly state: string; readonly catalog: Promise<Catalog> } | undefined;
  /** Definitions by their place. An unchanged definition stays the same object. */
  readonly #parsed = new Map<string, ParsedDefinition>();

  constructor(store: TextStore, folders: readonly string[]) {
    this.#store = store;
    this.#folders = folders;
  }

  async catalog(): Promise<Catalog> {
    const version = await this.#store.version();
    const folders = await Promise.all(this.#folders.map(yamlFiles));
    const state = JSON.stringify([version, folders.map(({ problem, files }) => [problem, files.map(fileState)])]);
    if (this.#read?.state !== state) {
      const catalog = this.#load(folders);
      this.#read = { state, catalog };
      // After a failure, the next call reads again.
      catalog.catch(() => {
        if (this.#read?.state === state) this.#read = undefined;
      });
    }
    return await this.#read.catalog;
  }

  async #load(folders: readonly YamlFolder[]): Promise<Catalog> {
    // Loads YAML and the schemas only if there is something to read.
    const { parseTool } = await import('./parse-tool.ts');
    const stored = (await this.#store.list()).map(storedSource);
    const files = await Promise.all(folders.flatMap((folder) => folder.files.map(fileSource)));
    const problems: ToolProblem[] = folders.flatMap(({ problem }) => problem ?? []);
    const tools = new Map<string, ToolDefinition>();
    const origins = new Map<string, string>();
    const sources = new Set<string>();
    for await (const source of inSlices([...stored, ...files])) {
      const result = this.#parse(source, parseTool);
      sources.add(source.where);
      if ('error' in result) {
        problems.push(problemOf(source, result.error));
        continue;
      }
      const { name } = result.tool;
      const first = origins.get(name);
      if (first !== undefined) {
        problems.push({
          where: source.where,
          name,
          message: `The tool ${name} in ${source.where} is not used: ${first} has that name.`,
        });
        continue;
      }
      tools.set(name, result.tool);
      origins.set(name, source.where);
    }
    for (const where of this.#parsed.keys()) if (!sources.has(where)) this.#parsed.delete(where);
    return { tools, problems };
  }

  #parse({ where, text, problem }: DefinitionSource, parseTool: ParseTool): ParsedDefinition {
    const before = this.#parsed.get(where);
    if (before !== undefined && text !== undefined && before.text === text) return before;
    const parsed = parse(parseTool, text, where, problem);
    this.#parsed.set(where, parsed);
    return parsed;
  }
}

function parse(
  parseTool: ParseTool,
  text: string | undefined,
  where: string,
  problem = 'it does not exist',
): ParsedDefinition {
  try {
    if (text !== undefined) return { text, tool: parseTool(text, where) };
    return { text, error: new CellaError('TOOL_INVALID', `The tool in ${where} cannot be read: ${problem}.`) };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { text, error };
  }
}

function problemOf({ where, name }: DefinitionSource, error: CellaError): ToolProblem {
  const { line } = error.details;
  return { where, name, message: error.message, ...(typeof line === 'number' ? { line } : {}) };
}

function storedSource({ name, text, where }: StoredText): DefinitionSource {
  return { name, text, where };
}

/** The most files in one folder: each call checks all of them. */
const MOST_FILES = 10_000;

/** The text of a definition. */
interface DefinitionSource {
  readonly where: string;
  readonly name: string;
  /** Undefined if it could not be read; then there is a reason. */
  readonly text: string | undefined;
  readonly problem?: string;
}

interface YamlFile {
  readonly path: string;
  readonly name: string;
  readonly facts: Stats;
}

interface YamlFolder {
  readonly files: readonly YamlFile[];
  readonly problem?: { readonly where: string; readonly message: string };
}

async function yamlFiles(folder: string): Promise<YamlFolder> {
  try {
    const names: string[] = [];
    for await (const { name } of await opendir(folder, { bufferSize: 256 })) {
      await giveWay();
      if (/^[^.].*\.ya?ml$/.test(name)) names.push(name);
      if (names.length > MOST_FILES) throw new Error(`it has more than ${MOST_FILES} files`);
    }
    const files = names.sort().map(async (name) => {
      const path = join(folder, name);
      return { path, name: name.replace(/\.ya?ml$/, ''), facts: await stat(path) };
    });
    // The file was removed meanwhile.
    return {
      files: (await Promise.allSettled(files)).flatMap((file) => (file.status === 'fulfilled' ? file.value : [])),
    };
  } catch (error) {
    return {
      files: [],
      problem: { where: folder, message: `The folder of tools ${folder} cannot be read: ${messageOf(error)}.` },
    };
  }
}

/** A value that differs after each change. */
function fileState({ path, facts }: YamlFile): unknown[] {
  return [path, facts.ino, facts.size, facts.mtimeMs, facts.ctimeMs];
}

async function fileSource({ path, name, facts }: YamlFile): Promise<DefinitionSource> {
  const unread = (problem: string): DefinitionSource => ({ where: path, name, text: undefined, problem });
  if (!facts.isFile()) return unread('it is not a file');
  if (facts.size > MOST_YAML_BYTES) return unread(`it is larger than ${MOST_YAML_BYTES / 1024} kB`);
  try {
    return { where: path, name, text: await readFile(path, 'utf8') };
  } catch (error) {
    return unread(messageOf(error));
  }
}
