/** The in-process executor: CPython in WebAssembly (Pyodide), one worker thread per kernel. No security boundary: for trusted code only. */

import { kernelPackage } from '../../interpreter/find-python.ts';
import type { KernelConnection } from '../../kernel/kernel-connection.ts';
import { IN_PROCESS_CAPABILITIES } from '../../protocol/capabilities.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FrameType } from '../../protocol/frames.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { EnvironmentSpec } from '../../sandbox/spec.ts';
import type {
  Executor,
  KernelHost,
  MemoryUsage,
  ProgramSpec,
  RunningProgram,
  RunningTerminal,
  StartKernelOptions,
} from '../kernel-host.ts';
import { type PrestartableHost, type SpareFactory, SparePool } from '../supervisor/spare-pool.ts';
import { findPyodide } from './find-pyodide.ts';
import { memoryImageFor } from './memory-image.ts';
import type { KernelTask } from './worker/worker-messages.ts';
import { PyodideWorker } from './worker-client.ts';

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
  readonly spares = new SparePool(() => this.#live());
  readonly #enclosures = new Set<PyodideHost>();
  #workshop: Promise<SpareFactory> | undefined;
  #closed = false;

  constructor(config: InProcessConfig) {
    this.#config = config;
  }

  async interpreter(): Promise<Interpreter> {
    const [major, minor, patch] = (await findPyodide()).python;
    return { tag: `cp${major}${minor}-wasm32`, version: [major, minor], patch, platforms: [] };
  }

  async open(spec: EnvironmentSpec): Promise<KernelHost> {
    return (await this.#live()).make(spec);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.spares.close();
    await Promise.all([...this.#enclosures].map((enclosure) => enclosure.close()));
  }

  #live(): Promise<SpareFactory> {
    if (this.#closed) return Promise.reject(closed());
    this.#workshop ??= this.#begin().catch((error: unknown) => {
      // Whoever asks next tries again.
      this.#workshop = undefined;
      throw error;
    });
    return this.#workshop;
  }

  async #begin(): Promise<SpareFactory> {
    const { dataDir, preload, env, memoryBytes, startTimeoutMs } = this.#config;
    const pyodide = await findPyodide();
    const sources = kernelPackage();
    const snapshot = await memoryImageFor({ pyodide, sources, preload, dataDir, timeoutMs: startTimeoutMs });
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

  #make(order: HostTask): PyodideHost {
    if (this.#closed) throw closed();
    const enclosure = new PyodideHost(order, () => this.#enclosures.delete(enclosure));
    this.#enclosures.add(enclosure);
    return enclosure;
  }
}

function closed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
}

/** What is the same for all workers of a place. */
export type HostTask = Omit<KernelTask, 'memory'>;

export class PyodideHost implements PrestartableHost {
  onGone: (twin: number, outOfMemory: boolean) => void = () => {};
  onDenied = () => {};
  readonly failure = undefined;
  readonly forkless = true;
  /** There is none but the host's own. */
  readonly pid = 0;
  #order: HostTask;
  readonly #onClosed: () => void;
  readonly #lodgings = new Set<PyodideWorker>();
  #prepared: { readonly lodging: PyodideWorker; readonly link: KernelConnection } | undefined;
  #closed = false;

  constructor(order: HostTask, onClosed: () => void) {
    this.#order = order;
    this.#onClosed = onClosed;
  }

  get alive(): boolean {
    return !this.#closed;
  }

  async prestart(): Promise<void> {
    const lodging = this.#open();
    this.#prepared = { lodging, link: lodging.attach() };
    await lodging.ready;
    if (!lodging.alive) throw new CellaError('TEMPLATE_FAILED', 'Pyodide ended before it was ready.');
  }

  wake(): void {}

  moveWorkspace(path: string): void {
    const { spec } = this.#order;
    const folder = { ...spec.folder, path };
    const writable = spec.writable.map((each) => (each.path === spec.folder.path ? { ...each, path } : each));
    this.#order = { ...this.#order, spec: { ...spec, folder, writable } };
    for (const lodging of this.#lodgings) lodging.moveTo(path);
  }

  async startKernel({ env, packages, from, reseed = !from }: StartKernelOptions): Promise<KernelConnection> {
    if (this.#closed) throw new CellaError('KERNEL_DIED', 'The place of this kernel was closed.');
    const link = from ? this.#goBack(from) : this.#begin();
    link.control.send(FrameType.start, 0, JSON.stringify({ env, packages, reseed }));
    return link;
  }

  async exec({ argv }: ProgramSpec): Promise<RunningProgram> {
    throw new CellaError(
      'CAPABILITY_MISSING',
      `${argv[0]} cannot be run: the in-process executor has no subprocesses.`,
    );
  }

  async openTerminal(): Promise<RunningTerminal> {
    throw new CellaError('CAPABILITY_MISSING', 'The in-process executor has no subprocesses, and so no terminals.');
  }

  dropSnapshot(twin: number): void {
    this.#holderOf(twin)?.drop(twin);
  }

  async memoryUsage(): Promise<MemoryUsage> {
    const all = [...this.#lodgings].map((lodging, index) => [String(index), lodging.bytes] as const);
    // Moments lie in the memory of the kernel that they were kept in.
    return { kernels: Object.fromEntries(all), twins: {} };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#lodgings].map((lodging) => lodging.close()));
    this.#onClosed();
  }

  #begin(): KernelConnection {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    return prepared?.lodging.alive ? prepared.link : this.#open().attach();
  }

  #goBack(from: { readonly twin: number; readonly keep: boolean }): KernelConnection {
    const lodging = this.#holderOf(from.twin);
    if (!lodging) throw new CellaError('CHECKPOINT_GONE', 'It has ended with the worker that it was kept in.');
    if (lodging.isAttached) {
      if (!from.keep) lodging.drop(from.twin);
      throw new CellaError('FORK_UNSAFE', 'The in-process executor has no second kernel with the same memory.');
    }
    return lodging.attach(from);
  }

  #holderOf(twin: number): PyodideWorker | undefined {
    return [...this.#lodgings].find((lodging) => lodging.alive && lodging.twins.has(twin));
  }

  #open(): PyodideWorker {
    const lodging = new PyodideWorker(this.#order);
    this.#lodgings.add(lodging);
    void lodging.gone.then(({ outOfMemory }) => {
      this.#lodgings.delete(lodging);
      if (!this.#closed) for (const twin of lodging.twins) this.onGone(twin, outOfMemory);
    });
    return lodging;
  }
}
