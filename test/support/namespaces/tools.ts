/** Tools over a store in memory, called as code calls them: by the names of the wire. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NamespaceCallContext } from '../../../src/namespaces/host-methods.ts';
import { HostCommands } from '../../../src/namespaces/tools/host-command.ts';
import { Tools, type ToolsOptions } from '../../../src/namespaces/tools/tools-namespace.ts';
import type { Command, CommandRunner } from '../../../src/protocol/process.ts';
import type { PyValue } from '../../../src/protocol/py-values.ts';
import type { StoredText, TextStore } from '../../../src/storage/contract.ts';

/** A `TextStore` without a disk. `reads` counts how often everything was read. */
export class MemoryTexts implements TextStore {
  readonly #texts = new Map<string, string>();
  #changes = 0;
  reads = 0;

  async list(): Promise<StoredText[]> {
    this.reads++;
    return [...this.#texts.keys()].sort().map((name) => this.#stored(name, this.#texts.get(name) ?? ''));
  }

  async get(name: string): Promise<StoredText | undefined> {
    const text = this.#texts.get(name);
    return text === undefined ? undefined : this.#stored(name, text);
  }

  async put(name: string, text: string, options: { readonly ifAbsent?: boolean } = {}): Promise<boolean> {
    if (options.ifAbsent === true && this.#texts.has(name)) return false;
    this.#texts.set(name, text);
    this.#changes++;
    return true;
  }

  async delete(name: string): Promise<boolean> {
    this.#changes++;
    return this.#texts.delete(name);
  }

  async version(): Promise<string> {
    return String(this.#changes);
  }

  async holds(count: number): Promise<boolean> {
    return this.#texts.size >= count;
  }

  #stored(name: string, text: string): StoredText {
    return { name, text, updatedAt: 0, where: `memory/${name}.yaml` };
  }
}

/** Runs on the host, and remembers what was asked of it. */
export class WatchedCommands implements CommandRunner {
  readonly commands: Command[] = [];
  readonly #host = new HostCommands();

  async run(command: Command) {
    this.commands.push(command);
    return await this.#host.run(command);
  }
}

export interface TestTools extends AsyncDisposable {
  readonly tools: Tools;
  readonly store: MemoryTexts;
  readonly sandboxed: WatchedCommands;
  readonly host: WatchedCommands;
  /** What the code gets for `tools.NAME(*positional, **named)`, or for `tools.NAME.RECIPE(…)`. */
  call(callee: string, named?: Record<string, PyValue>, options?: CallOptions): Promise<PyValue>;
  /** Any other call of the wire. */
  ask(method: string, params: unknown): Promise<PyValue>;
}

export interface CallOptions {
  readonly positional?: PyValue[];
  readonly context?: Partial<NamespaceCallContext>;
}

/** `yamls` are kept under the names that they give themselves. */
export async function testTools(yamls: readonly string[], options: Partial<ToolsOptions> = {}): Promise<TestTools> {
  const store = new MemoryTexts();
  for (const [index, yaml] of yamls.entries())
    await store.put(/^name: (\w+)/m.exec(yaml)?.[1] ?? `unnamed${index}`, yaml);
  const sandboxed = new WatchedCommands();
  const host = new WatchedCommands();
  const tools = new Tools({ store, folders: [], sandboxed, host, ...options });
  const ask = async (method: string, params: unknown, context: Partial<NamespaceCallContext> = {}) => {
    const found = tools.methods()[method];
    if (found === undefined) throw new Error(`there is no method ${method}`);
    return await found.perform(params, { ...quiet(), ...context });
  };
  return {
    tools,
    store,
    sandboxed,
    host,
    ask,
    call: async (callee, named = {}, { positional = [], context = {} } = {}) => {
      const [name, recipe = null] = callee.split('.');
      return await ask('tools.call', { name, recipe, positional, named }, context);
    },
    [Symbol.asyncDispose]: () => tools.close(),
  };
}

function quiet(): NamespaceCallContext {
  return { signal: new AbortController().signal, progress: () => undefined, whileAsking: (work) => work() };
}

export function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'cella-tools-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}
