/** The subprocess executor: CPython in a sandbox, forked from a warm template. */

import { probePython } from '../../interpreter/find-python.ts';
import { ALL_CAPABILITIES } from '../../protocol/enums.ts';
import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { Executor, KernelHost } from '../kernel-host.ts';
import { SparePool } from '../supervisor/spare-pool.ts';
import { SupervisorClient } from '../supervisor/supervisor-client.ts';
import { ForkTemplate, type TemplateConfig } from './fork-template.ts';
import { TemplateTransport } from './template-transport.ts';

/** How many are tried for one sandbox. */
const MOST_TEMPLATES = 3;

export class SubprocessExecutor implements Executor {
  readonly #config: TemplateConfig;
  readonly capabilities = ALL_CAPABILITIES;
  readonly spares = new SparePool(async () => {
    const template = await this.#live();
    return {
      get alive() {
        return template.alive;
      },
      make: async (spec) => new SupervisorClient(await TemplateTransport.open(template, spec)),
    };
  });
  #template: Promise<ForkTemplate> | undefined;
  /** Those that run, also the ones that make no more sandboxes. */
  readonly #running = new Set<ForkTemplate>();
  #closed = false;

  constructor(config: TemplateConfig) {
    this.#config = config;
  }

  interpreter(): Promise<Interpreter> {
    return probePython(this.#config.python);
  }

  async open(spec: EnvironmentSpec): Promise<KernelHost> {
    for (let left = MOST_TEMPLATES; ; left--) {
      const template = await this.#live();
      const transport = await TemplateTransport.open(template, spec);
      if (left === 1 || (await transport.supervisor.connected)) return new SupervisorClient(transport);
      // The template was killed, and its exit is not reported yet.
      template.retire();
      await transport.close();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.spares.close();
    const template = this.#template;
    this.#template = undefined;
    await template?.catch(() => {}); // a failed start was reported to its caller
    await Promise.all([...this.#running].map((one) => one.close()));
  }

  async #live(): Promise<ForkTemplate> {
    const current = this.#template;
    if (current && (await current).alive) return current;
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
    // The first to find it gone starts the next; the others wait for the same one.
    if (this.#template === current) {
      const starting = ForkTemplate.start(this.#config);
      this.#template = starting;
      starting.then(
        (made) => {
          this.#running.add(made);
          void made.exited.then(() => this.#running.delete(made));
        },
        () => {
          if (this.#template === starting) this.#template = undefined;
        },
      );
    }
    return (await this.#template) as ForkTemplate;
  }
}
