/** One agent's place in this process: a worker for its kernel, and earlier ones that hold moments to go back to. */

import type { KernelConnection } from '../../kernel/kernel-connection.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FrameType } from '../../protocol/frames.ts';
import type { CommandLink, LaunchOptions, Program, TerminalLink, Usage } from '../contract.ts';
import type { Preparable } from '../spares.ts';
import type { KernelOrder } from './inside/orders.ts';
import { Lodging } from './lodging.ts';

/** What is the same for all workers of a place. */
export type PlaceOrder = Omit<KernelOrder, 'memory'>;

export class InProcessEnclosure implements Preparable {
  onGone: (twin: number, outOfMemory: boolean) => void = () => {};
  onDenied = () => {};
  readonly failure = undefined;
  readonly forkless = true;
  /** There is none but the host's own. */
  readonly pid = 0;
  #order: PlaceOrder;
  readonly #onClosed: () => void;
  readonly #lodgings = new Set<Lodging>();
  #prepared: { readonly lodging: Lodging; readonly link: KernelConnection } | undefined;
  #closed = false;

  constructor(order: PlaceOrder, onClosed: () => void) {
    this.#order = order;
    this.#onClosed = onClosed;
  }

  get alive(): boolean {
    return !this.#closed;
  }

  async prepare(): Promise<void> {
    const lodging = this.#open();
    this.#prepared = { lodging, link: lodging.enter() };
    await lodging.spoken;
    if (!lodging.alive) throw new CellaError('TEMPLATE_FAILED', 'Pyodide ended before it was ready.');
  }

  wake(): void {}

  moveTo(path: string): void {
    const { spec } = this.#order;
    const folder = { ...spec.folder, path };
    const writable = spec.writable.map((each) => (each.path === spec.folder.path ? { ...each, path } : each));
    this.#order = { ...this.#order, spec: { ...spec, folder, writable } };
    for (const lodging of this.#lodgings) lodging.moveTo(path);
  }

  async launch({ env, packages, from, reseed = !from }: LaunchOptions): Promise<KernelConnection> {
    if (this.#closed) throw new CellaError('KERNEL_DIED', 'The place of this kernel was closed.');
    const link = from ? this.#goBack(from) : this.#begin();
    link.control.send(FrameType.start, 0, JSON.stringify({ env, packages, reseed }));
    return link;
  }

  async command({ argv }: Program): Promise<CommandLink> {
    throw new CellaError(
      'CAPABILITY_MISSING',
      `${argv[0]} cannot be run: the in-process executor has no subprocesses.`,
    );
  }

  async terminal(): Promise<TerminalLink> {
    throw new CellaError('CAPABILITY_MISSING', 'The in-process executor has no subprocesses, and so no terminals.');
  }

  drop(twin: number): void {
    this.#holderOf(twin)?.drop(twin);
  }

  async measure(): Promise<Usage> {
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
    return prepared?.lodging.alive ? prepared.link : this.#open().enter();
  }

  #goBack(from: { readonly twin: number; readonly keep: boolean }): KernelConnection {
    const lodging = this.#holderOf(from.twin);
    if (!lodging) throw new CellaError('CHECKPOINT_GONE', 'It has ended with the worker that it was kept in.');
    if (lodging.taken) {
      if (!from.keep) lodging.drop(from.twin);
      throw new CellaError('FORK_UNSAFE', 'The in-process executor has no second kernel with the same memory.');
    }
    return lodging.enter(from);
  }

  #holderOf(twin: number): Lodging | undefined {
    return [...this.#lodgings].find((lodging) => lodging.alive && lodging.twins.has(twin));
  }

  #open(): Lodging {
    const lodging = new Lodging(this.#order);
    this.#lodgings.add(lodging);
    void lodging.gone.then(({ outOfMemory }) => {
      this.#lodgings.delete(lodging);
      if (!this.#closed) for (const twin of lodging.twins) this.onGone(twin, outOfMemory);
    });
    return lodging;
  }
}
