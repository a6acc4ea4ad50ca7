/** The conversations of a session's agents in storage, by revision: a newer one is never replaced by an older one. */

import type { TranscriptStore } from '../../storage/contract.ts';

export class Transcripts {
  readonly #store: TranscriptStore;
  readonly #key: string;

  constructor(store: TranscriptStore, key: string) {
    this.#store = store;
    this.#key = key;
  }

  get(conversation: string): Promise<{ revision: number; text: string } | undefined> {
    return this.#store.get(this.#key, conversation);
  }

  /** Agents only ever add to a conversation: a text that is no longer than the one that is kept is older, or the same. */
  async keep(conversation: string, text: string): Promise<void> {
    const there = await this.get(conversation);
    if (there && there.text.length >= text.length) return;
    await this.#store.put(this.#key, conversation, { revision: (there?.revision ?? 0) + 1, text });
  }
}
