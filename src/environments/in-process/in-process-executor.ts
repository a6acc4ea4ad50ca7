/** The in-process executor: CPython in WebAssembly (Pyodide), one worker thread per kernel. No security boundary: for trusted code only. */

import { kernelPackage } from '../../interpreter/package-file.ts';
import type { KernelConnection } from '../../kernel/kernel-connection.ts';
import { memoize } from '../../lib/single-flight.ts';
import { IN_PROCESS_CAPABILITIES } from '../../protocol/enums.ts';
import type { EnvironmentSpec, Interpreter } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FrameType } from '../../protocol/kernel-frames.ts';
import { encodeHostPayload, type ProgramSpec } from '../../protocol/kernel-payloads.ts';
import type {
  Executor,
  KernelHost,
  KernelHostListener,
  MemoryUsage,
  RunningProgram,
  RunningTerminal,
  StartKernelOptions,
} from '../kernel-host.ts';
import { type PrestartableHost, type SpareFactory, SparePool } from '../supervisor/spare-pool.ts';
import { memoryImageFor } from './memory-image.ts';
import type { KernelTask } from './shared-memory.ts';
import { findPyodide, PyodideWorkerClient } from './worker-client.ts';

interface InProcessConfig {
  readonly memoryBytes: number;
  readonly dataDir: string;
  readonly preload: readonly string[];
  readonly startTimeoutMs: number;
  /** Environment variables for every kernel. */
  readonly env: Readonly<Record<string, string>>;
}

export class InProcessExecutor implements Executor {
  readonly capabilities = IN_PROCESS_CAPABILITIES;
  readonly #config: InProcessConfig;
  readonly spares = new SparePool(() => this.#live());
  readonly #hosts = new Set<PyodideHost>();
  readonly #factory = memoize(() => this.#begin());
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
    await Promise.all([...this.#hosts].map((host) => host.close()));
  }

  #live(): Promise<SpareFactory> {
    if (this.#closed) return Promise.reject(closed());
    return this.#factory();
  }

  async #begin(): Promise<SpareFactory> {
    const { dataDir, preload, env, memoryBytes, startTimeoutMs } = this.#config;
    const pyodide = await findPyodide();
    const sources = kernelPackage();
    const memoryImage = await memoryImageFor({ pyodide, sources, preload, dataDir, timeoutMs: startTimeoutMs });
    const { folder, lock, wasm } = pyodide;
    const common = {
      kind: 'kernel',
      pyodide: folder,
      lock,
      wasm,
      sources,
      preload,
      memoryImage,
      memoryBytes,
      env,
    } as const;
    return { alive: true, make: (spec) => this.#make({ ...common, spec }) };
  }

  #make(task: HostTask): PyodideHost {
    if (this.#closed) throw closed();
    const host = new PyodideHost(task, () => this.#hosts.delete(host));
    this.#hosts.add(host);
    return host;
  }
}

function closed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
}

/** Settings that all workers of an environment share. */
type HostTask = Omit<KernelTask, 'memory'>;

class PyodideHost implements PrestartableHost {
  readonly failure = undefined;
  readonly capabilities = IN_PROCESS_CAPABILITIES;
  #listener: KernelHostListener | undefined;
  /** The kernel runs in the host's process. */
  readonly pid = 0;
  #task: HostTask;
  readonly #onClosed: () => void;
  readonly #workers = new Set<PyodideWorkerClient>();
  #prestarted: { readonly worker: PyodideWorkerClient; readonly link: KernelConnection } | undefined;
  #closed = false;

  constructor(task: HostTask, onClosed: () => void) {
    this.#task = task;
    this.#onClosed = onClosed;
  }

  listen(listener: KernelHostListener): void {
    this.#listener = listener;
  }

  get alive(): boolean {
    return !this.#closed;
  }

  async prestart(): Promise<void> {
    const worker = this.#open();
    this.#prestarted = { worker, link: worker.attach() };
    await worker.ready;
    if (!worker.alive) throw new CellaError('TEMPLATE_FAILED', 'Pyodide ended before it was ready.');
  }

  wake(): void {}

  moveWorkspace(path: string): void {
    const { spec } = this.#task;
    const folder = { ...spec.folder, path };
    const writable = spec.writable.map((each) => (each.path === spec.folder.path ? { ...each, path } : each));
    this.#task = { ...this.#task, spec: { ...spec, folder, writable } };
    for (const worker of this.#workers) worker.moveTo(path);
  }

  async startKernel({ env, packages, from, reseed = !from }: StartKernelOptions): Promise<KernelConnection> {
    if (this.#closed) throw new CellaError('KERNEL_DIED', 'The environment of this kernel was closed.');
    const link = from ? this.#restoreSnapshot(from) : this.#begin();
    link.control.send(FrameType.start, 0, encodeHostPayload('start', { env, packages, reseed }));
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

  dropSnapshot(snapshot: number): void {
    this.#workerOf(snapshot)?.drop(snapshot);
  }

  async memoryUsage(): Promise<MemoryUsage> {
    const all = [...this.#workers].map((worker, index) => [String(index), worker.bytes] as const);
    // A snapshot's memory is part of the kernel that keeps it.
    return { kernels: Object.fromEntries(all), snapshots: {} };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#workers].map((worker) => worker.close()));
    this.#onClosed();
  }

  #begin(): KernelConnection {
    const prestarted = this.#prestarted;
    this.#prestarted = undefined;
    return prestarted?.worker.alive ? prestarted.link : this.#open().attach();
  }

  #restoreSnapshot(from: { readonly snapshot: number; readonly keep: boolean }): KernelConnection {
    const worker = this.#workerOf(from.snapshot);
    if (!worker) throw new CellaError('CHECKPOINT_GONE', 'It ended with its worker.');
    if (worker.isAttached) {
      if (!from.keep) worker.drop(from.snapshot);
      throw new CellaError('FORK_UNSAFE', 'The in-process executor cannot fork a kernel.');
    }
    return worker.attach(from);
  }

  #workerOf(snapshot: number): PyodideWorkerClient | undefined {
    return [...this.#workers].find((worker) => worker.alive && worker.snapshots.has(snapshot));
  }

  #open(): PyodideWorkerClient {
    const worker = new PyodideWorkerClient(this.#task);
    this.#workers.add(worker);
    void worker.gone.then(({ outOfMemory = false }) => {
      this.#workers.delete(worker);
      if (!this.#closed) for (const snapshot of worker.snapshots) this.#listener?.snapshotLost(snapshot, outOfMemory);
    });
    return worker;
  }
}
