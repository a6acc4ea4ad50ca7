/** The subprocess executor: CPython in a sandbox, forked from a warm template. */

import type { LaunchSpec } from '../../sandbox/spec.ts';
import type { Enclosure, Executor } from '../contract.ts';
import { SubprocessEnclosure } from './enclosure.ts';
import { Template, type TemplateConfig } from './template.ts';

const REFILL_AFTER_MS = 25;

export class SubprocessExecutor implements Executor {
  readonly #config: TemplateConfig;
  #template: Promise<Template> | undefined;
  #spares: SubprocessEnclosure[] = [];
  #wanted = 0;
  #filling: Promise<void> | undefined;
  #refill: NodeJS.Timeout | undefined;

  constructor(config: TemplateConfig) {
    this.#config = config;
  }

  async open(spec: LaunchSpec): Promise<Enclosure> {
    const template = await this.#live();
    const spare = spec.network === 'none' ? this.#takeSpare() : undefined;
    const enclosure = spare ?? new SubprocessEnclosure(template, spec.network);
    enclosure.start(spec);
    if (spare) this.#fillSoon();
    return enclosure;
  }

  async keepSpares(count: number): Promise<void> {
    this.#wanted = Math.max(this.#wanted, count);
    await this.#fill();
  }

  async close(): Promise<void> {
    this.#wanted = 0;
    clearTimeout(this.#refill);
    await this.#filling?.catch(() => {}); // whoever asked for spares was told
    const spares = this.#spares.splice(0);
    await Promise.all(spares.map((spare) => spare.close()));
    const template = this.#template;
    this.#template = undefined;
    if (template) await (await template).close();
  }

  #takeSpare(): SubprocessEnclosure | undefined {
    for (let spare = this.#spares.shift(); spare; spare = this.#spares.shift()) {
      if (spare.alive) return spare;
    }
    return undefined;
  }

  async #live(): Promise<Template> {
    const current = this.#template;
    if (current && (await current).alive) return current;
    // The first to find it gone starts the next; the others wait for the same one.
    if (this.#template === current) {
      const starting = Template.start(this.#config);
      this.#template = starting;
      starting.catch(() => {
        if (this.#template === starting) this.#template = undefined;
      });
    }
    return (await this.#template) as Template;
  }

  /** A little later, so that making the next spare does not slow down whoever took this one. */
  #fillSoon(): void {
    clearTimeout(this.#refill);
    // A spare that cannot be made is no loss to this session; the next `open` meets the reason itself.
    this.#refill = setTimeout(() => this.#fill().catch(() => {}), REFILL_AFTER_MS).unref();
  }

  #fill(): Promise<void> {
    this.#filling ??= this.#prepare().finally(() => {
      this.#filling = undefined;
    });
    return this.#filling;
  }

  async #prepare(): Promise<void> {
    const template = await this.#live();
    while (this.#spares.length < this.#wanted && template.alive) {
      const spare = new SubprocessEnclosure(template, 'none');
      await spare.prepare();
      this.#spares.push(spare);
    }
  }
}
