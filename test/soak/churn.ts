/** A client that makes sessions and deletes them: what it was told of them holds after the server was killed. */

import { Refused, type Served } from '../support/servers/serve-process.ts';

export class Churn {
  /** By agent key. */
  readonly #present = new Map<string, string>();
  /** Those of which nobody was told how it went. */
  readonly #unsure = new Set<string>();
  #made = 0;
  #working: Promise<void> = Promise.resolve();

  /** All sessions are there, these and its own, and no others. */
  async check(served: Served, others: readonly string[]): Promise<void> {
    const there = await allSessions(served);
    const missing = [...others, ...this.#present.values()].filter((id) => !there.has(id));
    if (missing.length > 0) throw new Error(`sessions are gone: ${missing.join(', ')}`);
    for (const [id, agentKey] of there) {
      if (others.includes(id) || this.#present.get(agentKey) === id) continue;
      if (!this.#unsure.has(agentKey)) throw new Error(`session ${id} of ${agentKey} should not be there`);
      this.#present.set(agentKey, id);
    }
    this.#unsure.clear();
  }

  /** Goes on until the server ends. */
  work(served: Served): void {
    this.#working = this.#work(served);
    this.#working.catch(() => {}); // told by `over`
  }

  async over(): Promise<void> {
    await this.#working;
  }

  async #work(served: Served): Promise<void> {
    try {
      for (;;) {
        const agentKey = `churn ${this.#made++}`;
        this.#unsure.add(agentKey);
        const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey } });
        this.#unsure.delete(agentKey);
        this.#present.set(agentKey, id);
        // Those of which nobody knew how it went may have come to be many.
        while (this.#present.size > 3) await this.#delete(served);
      }
    } catch (error) {
      // Whoever was refused was answered.
      if (error instanceof Refused) throw error;
    }
  }

  async #delete(served: Served): Promise<void> {
    const [oldest] = this.#present;
    if (!oldest) return;
    const [agentKey, id] = oldest;
    this.#present.delete(agentKey);
    this.#unsure.add(agentKey);
    await served.ask(`DELETE /v1/sessions/${id}`);
    this.#unsure.delete(agentKey);
  }
}

/** Agent keys by id, however many pages they take. */
async function allSessions(served: Served): Promise<Map<string, string>> {
  const there = new Map<string, string>();
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const after: string = cursor === undefined ? '' : `&cursor=${cursor}`;
    const page = await served.ask<{ sessions: { id: string; agentKey: string }[]; next?: string }>(
      `GET /v1/sessions?limit=200${after}`,
    );
    for (const { id, agentKey } of page.sessions) there.set(id, agentKey);
    cursor = page.next;
  }
  return there;
}
