/** Model usage by session, and by user and day. Durable, and shared by all servers of a storage. */

import { KeyedSerialQueue } from '../../lib/queues.ts';
import { type DayUsage, ModelUsage, type TokenUsage, type UsageCounts } from '../../protocol/turn.ts';
import { Collection } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import type { TokenBinding } from '../access/session-tokens.ts';

/** Limits model names, which a provider could make up. */
const MOST_MODELS = 100;
const OTHER = 'other';

interface CallUsage {
  /** Includes the model, and the cost if known. */
  readonly usage: TokenUsage;
  readonly estimated: boolean;
}

const noCounts: UsageCounts = {
  ...{ calls: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0, costUsd: 0, unpriced: 0, estimated: 0 },
};
const unused: ModelUsage = { ...noCounts, models: {} };

export class UsageLedger {
  readonly #kept: Collection<ModelUsage>;
  readonly #clock: Clock;
  /** One write at a time per document. Conflicts with other servers are retried. */
  readonly #writing = new KeyedSerialQueue<string>();
  /** Unsaved usage. Every sum includes it: otherwise a full disk would make usage free. */
  readonly #unsaved = new Map<string, ModelUsage>();

  constructor(documents: DocumentStore, clock: Clock = Date.now) {
    this.#kept = new Collection(documents, 'model-usage', ModelUsage);
    this.#clock = clock;
  }

  /** Durable when it resolves. */
  async add({ session, userId }: Pick<TokenBinding, 'session' | 'userId'>, used: CallUsage): Promise<void> {
    const more = usageOf(used);
    await Promise.all([
      this.#inTurn(ofSession(session), more),
      this.#inTurn(ofUser(userId, dayOf(this.#clock())), more),
    ]);
  }

  async session(session: string): Promise<ModelUsage> {
    return await this.#get(ofSession(session));
  }

  async today(userId: string): Promise<ModelUsage> {
    return await this.#get(ofUser(userId, dayOf(this.#clock())));
  }

  /** The most recent days with usage, latest last. */
  async user(userId: string, { days = 31 }: { readonly days?: number } = {}): Promise<DayUsage[]> {
    const since = dayOf(this.#clock() - (days - 1) * DAY_MS);
    const prefix = ofUser(userId, '');
    for (const id of this.#unsavedUnder(prefix)) await this.#inTurn(id, unused);
    const found: DayUsage[] = [];
    for await (const { id, value } of this.#kept.all(prefix)) {
      const day = id.slice(prefix.length);
      if (day >= since) found.push({ day, ...value });
    }
    return found;
  }

  /** Retries saving. Returns what is still unsaved, by document. */
  async settle(): Promise<ReadonlyMap<string, ModelUsage>> {
    await Promise.allSettled([...this.#unsaved.keys()].map((id) => this.#inTurn(id, unused)));
    return this.#unsaved;
  }

  async forgetSession(session: string): Promise<void> {
    this.#unsaved.delete(ofSession(session));
    await this.#kept.delete(ofSession(session));
  }

  async forgetUser(userId: string): Promise<void> {
    const prefix = ofUser(userId, '');
    for (const id of this.#unsavedUnder(prefix)) this.#unsaved.delete(id);
    await this.#kept.deleteAll(prefix);
  }

  #unsavedUnder(prefix: string): string[] {
    return [...this.#unsaved.keys()].filter((id) => id.startsWith(prefix));
  }

  async #get(id: string): Promise<ModelUsage> {
    if (this.#unsaved.has(id)) await this.#inTurn(id, unused);
    return (await this.#kept.get(id))?.value ?? unused;
  }

  #inTurn(id: string, more: ModelUsage): Promise<void> {
    return this.#writing.run(id, () => this.#write(id, more));
  }

  async #write(id: string, more: ModelUsage): Promise<void> {
    const all = plus(this.#unsaved.get(id) ?? unused, more);
    try {
      await this.#kept.update(id, (there = unused) => plus(there, all));
      this.#unsaved.delete(id);
    } catch (error) {
      this.#unsaved.set(id, all);
      throw error;
    }
  }
}

const DAY_MS = 24 * 3_600_000;
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);
const ofSession = (session: string): string => `session/${session}`;
const ofUser = (userId: string, day: string): string => `user/${userId}/${day}`;

function usageOf({ usage, estimated }: CallUsage): ModelUsage {
  const { input, output, cacheRead, cacheWrite, costUsd, model = OTHER } = usage;
  const counts: UsageCounts = {
    ...{ calls: 1, input, output, cacheRead, cacheWrite, costUsd: costUsd ?? 0 },
    unpriced: costUsd === undefined ? 1 : 0,
    estimated: estimated ? 1 : 0,
  };
  return { ...counts, models: { [model]: counts } };
}

function plus({ models: before, ...counts }: ModelUsage, { models: more, ...added }: ModelUsage): ModelUsage {
  let models = before;
  for (const [named, own] of Object.entries(more)) {
    const known = Object.hasOwn(models, named) || Object.keys(models).length < MOST_MODELS;
    const model = known ? named : OTHER;
    const had = Object.hasOwn(models, model) ? models[model] : undefined;
    models = { ...models, [model]: sum(had ?? noCounts, own) };
  }
  return { ...sum(counts, added), models };
}

const sum = (before: UsageCounts, more: UsageCounts): UsageCounts => ({
  calls: before.calls + more.calls,
  input: before.input + more.input,
  output: before.output + more.output,
  cacheRead: before.cacheRead + more.cacheRead,
  cacheWrite: before.cacheWrite + more.cacheWrite,
  costUsd: before.costUsd + more.costUsd,
  unpriced: before.unpriced + more.unpriced,
  estimated: before.estimated + more.estimated,
});

/** The sum of all kinds of tokens. */
export const tokensIn = ({ input, output, cacheRead, cacheWrite }: UsageCounts): number =>
  input + output + cacheRead + cacheWrite;
