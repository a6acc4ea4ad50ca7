/** Which sessions there are, and what is known of each: those in use tell it themselves. */

import type { z } from 'zod';
import type { SessionInfo, SessionPage } from '../../protocol/http/sessions.ts';
import { SessionQuery } from '../../protocol/http/sessions.ts';
import { checkPoolOptions } from '../../session/options.ts';
import type { Definition } from './definition.ts';
import type { Definitions } from './definitions.ts';
import type { HostOptions } from './host-options.ts';
import { infoOf } from './info.ts';
import type { OpenSessions } from './open-sessions.ts';

export class Listing {
  readonly #definitions: Definitions;
  readonly #open: OpenSessions;
  readonly #elsewhere: HostOptions['elsewhere'];

  /** `elsewhere` tells what sessions of other servers do. */
  constructor(definitions: Definitions, open: OpenSessions, elsewhere: HostOptions['elsewhere']) {
    this.#definitions = definitions;
    this.#open = open;
    this.#elsewhere = elsewhere;
  }

  async list(query: SessionQuery, visible: (session: SessionInfo) => boolean = () => true): Promise<SessionPage> {
    const { limit, cursor, ...wanted } = checkPoolOptions(SessionQuery, query);
    const sessions: SessionInfo[] = [];
    const others = await this.#elsewhere?.();
    for await (const definition of this.#definitionsFor(wanted, cursor)) {
      if (definition.life !== 'present') continue;
      const info = await this.describe(definition, others?.get(definition.id));
      if (!matches(info, wanted) || !visible(info)) continue;
      if (sessions.length === limit) return { sessions, next: sessions.at(-1)?.id };
      sessions.push(info);
    }
    return { sessions };
  }

  /** `state` is what is known of it elsewhere. */
  async describe(definition: Definition, state: SessionInfo['state'] = 'hibernated'): Promise<SessionInfo> {
    const hosted = await this.#open.find(definition.id);
    return infoOf(definition, hosted ?? { state, queued: 0 });
  }

  /** One is found without looking at all the others. */
  async *#definitionsFor({ ownerId, agentKey }: SessionQuery, cursor: string | undefined): AsyncGenerator<Definition> {
    if (ownerId === undefined || agentKey === undefined || cursor !== undefined) {
      yield* this.#definitions.all(cursor);
      return;
    }
    const found = await this.#definitions.find(ownerId, agentKey);
    if (found) yield found;
  }
}

function matches(
  info: SessionInfo,
  { labels = {}, ...wanted }: Omit<z.output<typeof SessionQuery>, 'limit' | 'cursor'>,
) {
  const { agentKey = info.agentKey, ownerId = info.ownerId, state = info.state } = wanted;
  const labelled = Object.entries(labels).every(([label, value]) => info.labels[label] === value);
  return labelled && agentKey === info.agentKey && ownerId === info.ownerId && state === info.state;
}
