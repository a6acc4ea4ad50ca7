/** The shutdown of a running server: its request, progress and outcome, and the error for new work. */

import { CellaError } from '../protocol/errors.ts';

export class ServerControl {
  readonly startedAt = Date.now();
  readonly #draining = new AbortController();
  readonly #closing = new AbortController();
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
  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** Aborted when the server closes: long-lived connections end with it. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Resolves with the grace period of the first request to stop. */
  get requested(): Promise<number> {
    return this.#requested.promise;
  }

  /** Resolves when everything is saved, or with the error if something could not be. */
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
    this.#draining.abort();
  }

  reportSaved(failure?: CellaError): void {
    this.#saved.resolve(failure);
  }

  close(): void {
    this.#draining.abort();
    this.#closing.abort();
  }
}

/** By then another server, or this one after a restart, may take the work. */
const RETRY_AFTER_MS = 5000;

/** The server takes no new work. `advice`: what to do instead of asking again. */
export function drainingError(advice?: string): CellaError {
  return new CellaError('SERVER_STOPPING', 'The server is shutting down and takes no new work.', {
    details: { retryAfterMs: RETRY_AFTER_MS },
    advice,
  });
}
