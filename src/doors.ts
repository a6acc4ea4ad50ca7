/** Where the work of a command is done: at the server that it names or that runs on its data folder, else in this process. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CommandContext, NamespacesOptions, OpenOptions, StoragePlace, Stores } from './cli/context.ts';
import type { Reach, Reached } from './cli/server/reach.ts';
import { SOCKET_FILE } from './protocol/enums.ts';

type Work = Pick<CommandContext, 'openSession'> &
  Pick<Stores, 'listAgents' | 'openNamespaces' | 'listStore' | 'openShelf'>;

export class Doors implements Work {
  readonly #here: Work;
  #reach: Promise<Reach> | undefined;

  constructor(here: Work) {
    this.#here = here;
  }

  async openSession(options: OpenOptions) {
    const there = await this.server(options);
    if (!there) return await this.#here.openSession(options);
    const { openAt } = await import('./cli/server/open.ts');
    return await openAt(there, options);
  }

  async listAgents(place: StoragePlace) {
    return await ((await this.server(place))?.client.agents() ?? this.#here.listAgents(place));
  }

  async openNamespaces(options: NamespacesOptions) {
    const there = await this.server(options);
    if (!there) return await this.#here.openNamespaces(options);
    const { namespacesAt, withDepsAt } = await import('./cli/server/stores.ts');
    if (!there.shares) return await namespacesAt(there, options);
    return withDepsAt(there, options, await this.#here.openNamespaces(options));
  }

  async listStore(place: StoragePlace) {
    const there = await this.#elsewhere(place);
    if (!there) return await this.#here.listStore(place);
    return await (await import('./cli/server/stores.ts')).storeAt(there, place);
  }

  async openShelf(where: StoragePlace & { readonly agentKey: string }) {
    const there = await this.#elsewhere(where);
    if (!there) return await this.#here.openShelf(where);
    return (await import('./cli/server/stores.ts')).shelfAt(there, where);
  }

  /** Undefined where none is named and none runs on the data folder. */
  async server(place: StoragePlace): Promise<Reached | undefined> {
    // Most commands need nothing of all that.
    if (!place.server && !existsSync(join(place.dataDir, SOCKET_FILE))) return undefined;
    this.#reach ??= import('./cli/server/reach.ts').then(({ Reach }) => new Reach());
    return await (await this.#reach).server(place);
  }

  async close(): Promise<void> {
    await (await this.#reach)?.close();
  }

  /** Storage that the server on the data folder shares can be looked at without it. */
  async #elsewhere(place: StoragePlace): Promise<Reached | undefined> {
    const there = await this.server(place);
    return there?.shares ? undefined : there;
  }
}
