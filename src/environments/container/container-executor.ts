/** The container executor: runs one Docker or Podman container per agent key, with that key's kernels inside. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ALL_CAPABILITIES } from '../../protocol/enums.ts';
import type { EnvironmentSpec, Interpreter } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Executor, KernelHost } from '../kernel-host.ts';
import { SparePool } from '../supervisor/spare-pool.ts';
import { SupervisorClient } from '../supervisor/supervisor-client.ts';
import { LABEL, labelsOf, type Owner, removeOrphanFolders, removeOrphans } from './container.ts';
import { checkMounts } from './container-spec.ts';
import { type ContainerDefaults, ContainerSupervisorTransport } from './container-transport.ts';
import { connectEngine, DEFAULT_IMAGE } from './engine.ts';
import { forgetUnused, imageFacts } from './image-python.ts';

interface ContainerConfig {
  /** Image name. Defaults to the image that `cella images build` makes. */
  readonly image: string | undefined;
  /** Engine address. If omitted, Cella tries the usual sockets. */
  readonly engine: string | undefined;
  /** The folder with the socket of a rootless engine. */
  readonly runtimeDir?: string | undefined;
  readonly dataDir: string;
  readonly preload: readonly string[];
  readonly startTimeoutMs: number;
  /** Environment variables for every kernel. */
  readonly env: Readonly<Record<string, string>>;
}

/** The slot for the container that probes an image, in place of a number. */
const PROBE_SLOT = 'image';

export class ContainerExecutor implements Executor {
  readonly capabilities = ALL_CAPABILITIES;
  readonly #config: ContainerConfig;
  readonly #owner: Owner;
  /** The connection folders of this process. */
  readonly #folder: string;
  readonly spares = new SparePool(async () => {
    const defaults = await this.#live();
    return { alive: !this.#closed, make: (spec) => this.#make(defaults, spec) };
  });
  /** Numbers of containers that are in use or about to be created. */
  readonly #inUse = new Set<string>([PROBE_SLOT]);
  readonly #transports = new Set<ContainerSupervisorTransport>();
  /** Reset after a failure, so that the next open looks for the engine and for orphaned containers again. */
  #defaults: Promise<ContainerDefaults> | undefined;
  #made = 0;
  #closed = false;

  constructor(config: ContainerConfig, owner: Owner) {
    this.#config = config;
    this.#owner = owner;
    this.#folder = join(config.dataDir, 'containers', owner.self);
  }

  async interpreter(): Promise<Interpreter> {
    return (await this.#live()).interpreter;
  }

  async open(spec: EnvironmentSpec): Promise<KernelHost> {
    checkMounts(spec);
    return await this.#make(await this.#live(), spec);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.spares.close();
    await Promise.all([...this.#transports].map((transport) => transport.close()));
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #make(defaults: ContainerDefaults, spec: EnvironmentSpec): Promise<SupervisorClient> {
    const number = String(this.#made++);
    this.#inUse.add(number);
    try {
      const transport = await ContainerSupervisorTransport.open(defaults, spec, {
        number,
        folder: join(this.#folder, number),
      });
      this.#transports.add(transport);
      void transport.gone.then((removed) => {
        this.#transports.delete(transport);
        this.#inUse.delete(number);
        if (!removed) this.#defaults = undefined;
      });
      if (this.#closed) void transport.close();
      return new SupervisorClient(transport);
    } catch (error) {
      this.#inUse.delete(number);
      this.#defaults = undefined;
      throw error;
    }
  }

  #live(): Promise<ContainerDefaults> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
    this.#defaults ??= this.#prepare().catch((error) => {
      this.#defaults = undefined;
      throw error;
    });
    return this.#defaults;
  }

  async #prepare(): Promise<ContainerDefaults> {
    const { image, dataDir, engine: address, runtimeDir, preload, startTimeoutMs, env } = this.#config;
    const engine = await connectEngine(address, runtimeDir);
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const [others] = await Promise.all([
      removeOrphanFolders(join(dataDir, 'containers'), this.#owner),
      removeOrphans(engine, dataDir, this.#owner, this.#inUse),
    ]);
    if (others.length === 0) await forgetUnused(dataDir);
    const labels = labelsOf(dataDir, this.#owner.self);
    const probe = { labels: { ...labels, [LABEL.number]: PROBE_SLOT } };
    const { id, python, path, volumes, interpreter, kernel } = await imageFacts(engine, image, dataDir, probe);
    return {
      engine,
      image: id,
      volumes,
      imageName: image ?? DEFAULT_IMAGE,
      interpreter,
      python,
      kernel,
      env: { ...env, PATH: path },
      labels,
      preload,
      startTimeoutMs,
    };
  }
}
