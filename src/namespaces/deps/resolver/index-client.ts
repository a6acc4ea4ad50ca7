/** Requests to a package index, within limits. A password goes only to the index that it belongs to. */

import { buffer } from 'node:stream/consumers';
import { IdleTimeout } from '../../../lib/deadline.ts';
import { messageOf } from '../../../lib/values.ts';
import { decoded, withoutUser } from '../package-source.ts';
import { ResolutionError, type ResolverLimits } from './resolver-limits.ts';

interface Fetched {
  /** The URL after redirects. */
  readonly url: URL;
  readonly type: string;
  readonly body: AsyncIterable<Uint8Array>;
}

const MOST_REDIRECTS = 5;
const TRIES = 3;

export class IndexClient {
  readonly #indexes: readonly URL[];
  readonly #limits: ResolverLimits;
  readonly #signal: AbortSignal;
  #left: number;

  constructor(indexes: readonly URL[], limits: ResolverLimits, signal: AbortSignal) {
    this.#indexes = indexes;
    this.#limits = limits;
    this.#signal = signal;
    this.#left = limits.totalBytes;
  }

  /** Undefined if there is nothing of that name. */
  async fetch(address: URL, accept: string, mostBytes: number): Promise<Fetched | undefined> {
    let url = address;
    for (let round = 0; round <= MOST_REDIRECTS; round += 1) {
      const idle = new RequestTimeout(this.#limits.idleTimeoutMs);
      const response = await this.#ask(url, accept, idle);
      if (response.status >= 300 && response.status < 400) {
        idle.end();
        await response.body?.cancel();
        url = followed(url, response.headers.get('location'));
        continue;
      }
      if (response.status === 404 || response.status === 410) {
        idle.end();
        await response.body?.cancel();
        return undefined;
      }
      if (!response.ok || !response.body) {
        idle.end();
        await response.body?.cancel();
        throw new ResolutionError(`the package index answered ${response.status} for ${displayUrl(url)}`, 'all');
      }
      const body = this.#bounded(response.body, url, mostBytes, idle);
      return { url, type: response.headers.get('content-type') ?? '', body };
    }
    throw new ResolutionError(`the package index sends ${displayUrl(address)} in endless redirects`, 'all');
  }

  /** Undefined if there is nothing of that name. */
  async whole(address: URL, accept: string, mostBytes: number): Promise<(Fetched & { bytes: Buffer }) | undefined> {
    const fetched = await this.fetch(address, accept, mostBytes);
    return fetched && { ...fetched, bytes: await buffer(fetched.body) };
  }

  async #ask(url: URL, accept: string, idle: RequestTimeout): Promise<Response> {
    const headers = { accept, 'user-agent': 'cella', ...this.#password(url) };
    for (let round = 1; ; round += 1) {
      const signal = AbortSignal.any([this.#signal, idle.begin()]);
      try {
        return await fetch(withoutUser(url), { headers, redirect: 'manual', signal });
      } catch (error) {
        this.#signal.throwIfAborted();
        if (round < TRIES && !idle.broken) continue;
        idle.end();
        throw unanswered(url, error);
      }
    }
  }

  /** The header with the password, only for URLs on the origin of its index. */
  #password(url: URL): Record<string, string> {
    const index = this.#indexes.find(({ origin, username }) => origin === url.origin && username !== '');
    if (!index) return {};
    const pair = `${decoded(index.username)}:${decoded(index.password)}`;
    return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
  }

  async *#bounded(body: AsyncIterable<Uint8Array>, url: URL, mostBytes: number, idle: RequestTimeout) {
    let bytes = 0;
    try {
      for await (const part of body) {
        bytes += part.length;
        this.#left -= part.length;
        if (bytes > mostBytes) throw new ResolutionError(`${displayUrl(url)} is larger than ${mostBytes} bytes`);
        if (this.#left < 0)
          throw new ResolutionError(`the packages are larger than ${this.#limits.totalBytes} bytes together`);
        idle.begin();
        yield part;
      }
    } catch (error) {
      this.#signal.throwIfAborted();
      throw error instanceof ResolutionError ? error : unanswered(url, error);
    } finally {
      idle.end();
    }
  }
}

function followed(from: URL, location: string | null): URL {
  const to = location !== null && URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (!to || !isReachable(to, from))
    throw new ResolutionError(`the package index sends ${displayUrl(from)} to an address that is not allowed`, 'all');
  return to;
}

/** False from https to http: what was requested in private is not fetched in the open. */
export function isReachable(to: URL, from: URL): boolean {
  return to.protocol === 'https:' || (to.protocol === 'http:' && from.protocol === 'http:');
}

function unanswered(url: URL, error: unknown): ResolutionError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const why = messageOf(cause);
  return new ResolutionError(`the package index did not answer (${displayUrl(url)}: ${why})`, 'all');
}

export function displayUrl(url: URL): string {
  const bare = new URL(withoutUser(url));
  bare.search = '';
  bare.hash = '';
  return bare.href;
}

/** Aborts a request that has made no progress for a while. */
class RequestTimeout {
  readonly #stop = new AbortController();
  readonly #idle: IdleTimeout;

  constructor(ms: number) {
    this.#idle = new IdleTimeout(ms, () => this.#stop.abort(new Error(`no data arrived for ${ms} ms`)));
  }

  get broken(): boolean {
    return this.#stop.signal.aborted;
  }

  begin(): AbortSignal {
    this.#idle.restart();
    return this.#stop.signal;
  }

  end(): void {
    this.#idle.stop();
  }
}
