/** The in-process executor: CPython in WebAssembly, a worker thread a kernel. For trusted code: it is no security boundary. */

import { kernelPackage } from '../../interpreter/find-python.ts';
import { IN_PROCESS_CAPABILITIES } from '../../protocol/capabilities.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { EnvironmentSpec } from '../../sandbox/spec.ts';
import type { Enclosure, Executor } from '../contract.ts';
import { Spares, type Workshop } from '../spares.ts';
import { InProcessEnclosure, type PlaceOrder } from './enclosure.ts';
import { findPyodide } from './pyodide.ts';
import { snapshotFor } from './snapshot.ts';

export interface InProcessConfig {
  readonly memoryBytes: number;
  readonly dataDir: string;
  readonly preload: readonly string[];
  readonly startTimeoutMs: number;
  /** What every kernel finds in its environment. */
  readonly env: Readonly<Record<string, string>>;
}

export class InProcessExecutor implements Executor {
  readonly capabilities = IN_PROCESS_CAPABILITIES;
  readonly #config: InProcessConfig;
  readonly spares = new Spares(() => this.#live());
  readonly #enclosures = new Set<InProcessEnclosure>();
  #workshop: Promise<Workshop> | undefined;
  #closed = false;

  constructor(config: InProcessConfig) {
    this.#config = config;
  }

  async interpreter(): Promise<Interpreter> {
    const [major, minor, patch] = (await findPyodide()).python;
    return { tag: `cp${major}${minor}-wasm32`, version: [major, minor], patch, platforms: [] };
  }

  async open(spec: EnvironmentSpec): Promise<Enclosure> {
    return (await this.#live()).make(spec);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.spares.close();
    await Promise.all([...this.#enclosures].map((enclosure) => enclosure.close()));
  }

  #live(): Promise<Workshop> {
    if (this.#closed) return Promise.reject(closed());
    this.#workshop ??= this.#begin().catch((error: unknown) => {
      // Whoever asks next tries again.
      this.#workshop = undefined;
      throw error;
    });
    return this.#workshop;
  }

  async #begin(): Promise<Workshop> {
    const { dataDir, preload, env, memoryBytes, startTimeoutMs } = this.#config;
    const pyodide = await findPyodide();
    const sources = kernelPackage();
    const snapshot = await snapshotFor({ pyodide, sources, preload, dataDir, timeoutMs: startTimeoutMs });
    const { folder, lock, wasm } = pyodide;
    const common = {
      kind: 'kernel',
      pyodide: folder,
      lock,
      wasm,
      sources,
      preload,
      snapshot,
      memoryBytes,
      env,
    } as const;
    return { alive: true, make: (spec) => this.#make({ ...common, spec }) };
  }

  #make(order: PlaceOrder): InProcessEnclosure {
    if (this.#closed) throw closed();
    const enclosure = new InProcessEnclosure(order, () => this.#enclosures.delete(enclosure));
    this.#enclosures.add(enclosure);
    return enclosure;
  }
}

function closed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
}
