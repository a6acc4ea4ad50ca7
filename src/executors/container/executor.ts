/** The container executor: one container for each agent, of Docker's or Podman's, with the kernels of that agent. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ALL_CAPABILITIES } from '../../protocol/capabilities.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { EnvironmentSpec } from '../../sandbox/spec.ts';
import type { Enclosure, Executor } from '../contract.ts';
import { SupervisedEnclosure } from '../enclosure.ts';
import { Spares } from '../spares.ts';
import { DEFAULT_IMAGE } from './default-image.ts';
import { connectEngine } from './engine.ts';
import { checkFolders } from './folders.ts';
import { forgetUnused, imageFacts } from './image.ts';
import { removeFolders, removeLeftovers } from './leftovers.ts';
import { LABEL, labelsOf, type Owner } from './owner.ts';
import { ContainerWay, type Site } from './way.ts';

export interface ContainerConfig {
  /** Its name; without one, the image that `cella image build` makes. */
  readonly image: string | undefined;
  /** The engine's address; without one it is looked for. */
  readonly engine: string | undefined;
  /** Where a user's own engine has its socket. */
  readonly runtimeDir?: string | undefined;
  readonly dataDir: string;
  readonly preload: readonly string[];
  readonly startTimeoutMs: number;
  /** What every kernel finds in its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** In place of a number: the container that an image is asked in. */
const ASKING = 'image';

export class ContainerExecutor implements Executor {
  readonly capabilities = ALL_CAPABILITIES;
  readonly #config: ContainerConfig;
  readonly #owner: Owner;
  /** Where the doors of this process are. */
  readonly #folder: string;
  readonly spares = new Spares(async () => {
    const site = await this.#live();
    return { alive: !this.#closed, make: (spec) => this.#make(site, spec) };
  });
  /** Numbers of containers that are in use, or about to be made. */
  readonly #inUse = new Set<string>([ASKING]);
  readonly #ways = new Set<ContainerWay>();
  /** Where it is taken away, whoever comes next looks for the engine again, and for what may have been left there. */
  #site: Promise<Site> | undefined;
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

  async open(spec: EnvironmentSpec): Promise<Enclosure> {
    checkFolders(spec);
    return await this.#make(await this.#live(), spec);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.spares.close();
    await Promise.all([...this.#ways].map((way) => way.release()));
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #make(site: Site, spec: EnvironmentSpec): Promise<SupervisedEnclosure> {
    const number = String(this.#made++);
    this.#inUse.add(number);
    try {
      const way = await ContainerWay.open(site, spec, { number, folder: join(this.#folder, number) });
      this.#ways.add(way);
      void way.gone.then((removed) => {
        this.#ways.delete(way);
        this.#inUse.delete(number);
        if (!removed) this.#site = undefined;
      });
      if (this.#closed) void way.release();
      return new SupervisedEnclosure(way);
    } catch (error) {
      this.#inUse.delete(number);
      this.#site = undefined;
      throw error;
    }
  }

  #live(): Promise<Site> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
    this.#site ??= this.#prepare().catch((error) => {
      this.#site = undefined;
      throw error;
    });
    return this.#site;
  }

  async #prepare(): Promise<Site> {
    const { image, dataDir, engine: address, runtimeDir, preload, startTimeoutMs, env } = this.#config;
    const engine = await connectEngine(address, runtimeDir);
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const [others] = await Promise.all([
      removeFolders(join(dataDir, 'containers'), this.#owner),
      removeLeftovers(engine, dataDir, this.#owner, this.#inUse),
    ]);
    if (others.length === 0) await forgetUnused(dataDir);
    const labels = labelsOf(dataDir, this.#owner.self);
    const asking = { labels: { ...labels, [LABEL.number]: ASKING } };
    const { id, python, path, volumes, interpreter, kernel } = await imageFacts(engine, image, dataDir, asking);
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
