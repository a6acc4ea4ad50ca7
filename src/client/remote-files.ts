/** The files of a session's workspace at a server. */

import { chunksOf, jsonLines } from '../lib/line-splitter.ts';
import * as routes from '../protocol/api/namespace-routes.ts';
import { ErrorBody } from '../protocol/error-body.ts';
import { CellaError } from '../protocol/errors.ts';
import { FileChange, type FileInfo } from '../protocol/workspace-models.ts';
import { callSession, errorFromBody, type SessionApiClient } from './api-client.ts';
import { unreachable } from './transport.ts';

export class RemoteFiles {
  readonly #place: SessionApiClient;
  readonly #closing: AbortSignal;

  constructor(place: SessionApiClient, closing: AbortSignal) {
    this.#place = place;
    this.#closing = closing;
  }

  /** What is in a folder, by name; `cut` where there is more than a listing holds. */
  list(path = ''): Promise<{ readonly files: readonly FileInfo[]; readonly cut: boolean }> {
    return callSession(this.#place, routes.ListFiles, { query: { path } });
  }

  /** The bytes of a file, as they come. */
  async *read(path: string, { offset = 0 } = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const { link, id, check } = this.#place;
    check();
    yield* chunksOf(await link.open(routes.ReadFile, { params: { id }, query: { path, offset } }));
  }

  /** All of it or nothing; the folders on the way are made. */
  write(path: string, content: string | Uint8Array | AsyncIterable<Uint8Array>): Promise<FileInfo> {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    return callSession(this.#place, routes.WriteFile, { query: { path }, bytes });
  }

  makeFolder(path: string): Promise<void> {
    return callSession(this.#place, routes.MakeFolder, { body: { path } });
  }

  move(from: string, to: string, { replace = false } = {}): Promise<FileInfo> {
    return callSession(this.#place, routes.MoveFile, { body: { from, to, replace } });
  }

  delete(path: string, { recursive = false } = {}): Promise<void> {
    return callSession(this.#place, routes.DeleteFile, { query: { path, recursive: String(recursive) } });
  }

  /**
   * What changes below a folder, from `watching` on, until the signal aborts or the session is closed here. A connection
   * that breaks is an error: whoever watches again lists again first.
   */
  async *watch(path = '', { signal }: { readonly signal?: AbortSignal } = {}): AsyncGenerator<FileChange> {
    const { link, id, check } = this.#place;
    check();
    const until = signal ? AbortSignal.any([signal, this.#closing]) : this.#closing;
    const given = { params: { id }, query: { path }, accept: 'application/x-ndjson', signal: until };
    try {
      for await (const line of jsonLines(await link.open(routes.WatchFiles, given))) {
        const change = FileChange.safeParse(line);
        if (change.success) yield change.data;
        const failure = ErrorBody.safeParse(line);
        if (failure.success) throw errorFromBody(failure.data.error);
      }
    } catch (error) {
      if (until.aborted) return;
      throw error instanceof CellaError ? error : unreachable(link.address, error);
    }
    if (!until.aborted) throw unreachable(link.address, new Error('the stream ended'));
  }
}
