/** The shutdown of a running server: who asks for it, how far it is, and how it went. */

import type { CellaError } from '../protocol/errors.ts';

export class ServerControl {
  readonly startedAt = Date.now();
  readonly #stopping = new AbortController();
  readonly #ending = new AbortController();
  readonly #requested = Promise.withResolvers<number>();
  readonly #saved = Promise.withResolvers<CellaError | undefined>();
  #url = '';
  #hurry: (() => void) | undefined;

  /** Where it listens; empty until it does. */
  get url(): string {
    return this.#url;
  }

  listening(url: string): void {
    this.#url = url;
  }

  /** Aborted when the server takes no new work. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Aborted when the server closes: long-lived connections end with it. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  /** Resolves with the grace period of the first request to stop. */
  get requested(): Promise<number> {
    return this.#requested.promise;
  }

  /** Resolves when everything is saved, or with what could not be. */
  get saved(): Promise<CellaError | undefined> {
    return this.#saved.promise;
  }

  /** Asks for the shutdown, or shortens its grace period. Returns at once. */
  request(graceMs: number): void {
    this.#requested.resolve(graceMs);
    if (this.#hurry) setTimeout(this.#hurry, graceMs).unref();
  }

  /** No new work from here on. `hurry` is called when the grace period of a later request is over. */
  drain(hurry: () => void): void {
    this.#hurry = hurry;
    this.#stopping.abort();
  }

  reportSaved(failure?: CellaError): void {
    this.#saved.resolve(failure);
  }

  end(): void {
    this.#stopping.abort();
    this.#ending.abort();
  }
}
