/** The container executor. */

import { ALL_CAPABILITIES } from '../../protocol/capabilities.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { LaunchSpec } from '../../sandbox/spec.ts';
import type { Enclosure, Executor, Spare, SpareOrder } from '../contract.ts';

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

export class ContainerExecutor implements Executor {
  readonly capabilities = ALL_CAPABILITIES;
  readonly #config: ContainerConfig;

  constructor(config: ContainerConfig) {
    this.#config = config;
  }

  interpreter(): Promise<Interpreter> {
    throw new CellaError('CAPABILITY_MISSING', `Not here: ${this.#config.dataDir}.`);
  }

  async open(_spec: LaunchSpec): Promise<Enclosure> {
    throw new CellaError('CAPABILITY_MISSING', 'Not here.');
  }

  spares(_shape: string): number {
    return 0;
  }

  wakeSpares(): void {}

  takeSpare(_shape: string): Spare | undefined {
    return undefined;
  }

  keepSpares(_order: SpareOrder): void {}

  async close(): Promise<void> {}
}
