/** The files of a session's workspace at a server. */

import { chunksOf, jsonLines } from '../lib/line-splitter.ts';
import { CellaError } from '../protocol/errors.ts';
import { ErrorBody } from '../protocol/parse.ts';
import { FileChange, type FileInfo } from '../protocol/workspace-models.ts';
import { errorFromBody, type SessionApiClient } from './api-client.ts';
import { serverUnreachable } from './transport.ts';

export class RemoteFiles {
  readonly #session: SessionApiClient;
  readonly #closing: AbortSignal;

  constructor(session: SessionApiClient, closing: AbortSignal) {
    this.#session = session;
    this.#closing = closing;
  }

  /** The entries of a folder, sorted by name. `cut`: there are more than one listing holds. */
  list(path = ''): Promise<{ readonly files: readonly FileInfo[]; readonly cut: boolean }> {
    return this.#session.call('listFiles', { query: { path } });
  }

  /** Streams the bytes of a file. */
  async *read(path: string, { offset = 0 } = {}): AsyncGenerator<Uint8Array, void, undefined> {
    yield* chunksOf(await this.#session.open('readFile', { query: { path, offset } }));
  }

  /** Writes the whole file or nothing. Creates missing parent folders. */
  write(path: string, content: string | Uint8Array | AsyncIterable<Uint8Array>): Promise<FileInfo> {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    return this.#session.call('writeFile', { query: { path }, bytes });
  }

  makeFolder(path: string): Promise<void> {
    return this.#session.call('makeFolder', { body: { path } });
  }

  move(from: string, to: string, { replace = false } = {}): Promise<FileInfo> {
    return this.#session.call('moveFile', { body: { from, to, replace } });
  }

  delete(path: string, { recursive = false } = {}): Promise<void> {
    return this.#session.call('deleteFile', { query: { path, recursive: recursive ? 'true' : 'false' } });
  }

  /**
   * Yields changes below a folder, starting with `watching`, until the signal aborts or the session is closed. Throws if the
   * connection breaks: list the folder again before you watch it again.
   */
  async *watch(path = '', { signal }: { readonly signal?: AbortSignal } = {}): AsyncGenerator<FileChange> {
    const { address } = this.#session.api;
    const until = signal ? AbortSignal.any([signal, this.#closing]) : this.#closing;
    const given = { query: { path }, accept: 'application/x-ndjson', signal: until };
    try {
      for await (const line of jsonLines(await this.#session.open('watchFiles', given))) {
        const change = FileChange.safeParse(line);
        if (change.success) yield change.data;
        const failure = ErrorBody.safeParse(line);
        if (failure.success) throw errorFromBody(failure.data.error);
      }
    } catch (error) {
      if (until.aborted) return;
      throw error instanceof CellaError ? error : serverUnreachable(address, error);
    }
    if (!until.aborted) throw serverUnreachable(address, new Error('the stream ended'));
  }
}
