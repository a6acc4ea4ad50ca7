/** Handlers for the files of a workspace, as streams of any size. */

import { processWatches } from '../../../environments/files/watch-tree.ts';
import { WorkspaceFiles } from '../../../environments/files/workspace-files.ts';
import { onAbort } from '../../../lib/abort.ts';
import type { fileRoutes } from '../../../protocol/api/namespace-routes.ts';
import type { SessionInfo } from '../../../protocol/session-info.ts';
import type { Principal } from '../../access/authorization.ts';
import { perSessionLimit } from '../../request-limits.ts';
import { downloadResponse, uploadedChunks } from '../bodies.ts';
import { negotiateFormat, streamUntilGone } from '../event-responses.ts';
import type { Handlers } from '../router.ts';
import { abortConnection, type ServerContext } from '../server-context.ts';

/** Per session. */
const MOST_WATCHES = 32;

export function fileHandlers(service: ServerContext): Handlers<typeof fileRoutes> {
  const { sessions, kernels, storageQuota, followers } = service;
  const watches = perSessionLimit('watches', MOST_WATCHES);
  const workspace = async (info: SessionInfo, { userId }: Principal): Promise<WorkspaceFiles> => {
    const session = await sessions.open(info.id);
    const there = await session.workspace();
    const whose = `user ${userId}`;
    if (there !== undefined) return new WorkspaceFiles({ ...there, whose });
    // The first kernel creates the workspace.
    await kernels.admit(info);
    return new WorkspaceFiles({ ...(await session.session()).files, whose });
  };

  return {
    listFiles: async ({ info, query, principal }) => (await workspace(info, principal)).list(query.path),

    watchFiles: async ({ info, query, principal, context, reauthorize }) => {
      const form = negotiateFormat(context.req.header('accept')) === 'sse' ? 'sse' : 'ndjson';
      using place = new DisposableStack();
      place.use(followers.enter(principal, form));
      place.use(watches.enter(info.id));
      const over = new AbortController();
      const changes = (await workspace(info, principal)).watch(query.path, processWatches, over.signal);
      // If the folder cannot be watched, the HTTP response reports it.
      const first = await changes.next();
      const source = (signal: AbortSignal) => {
        onAbort(signal, () => {
          over.abort();
          void changes.return(undefined).catch(() => {}); // nobody reads it any more
        });
        return from(first, changes);
      };
      return streamUntilGone(service, source, { form, place: place.move(), reauthorize, context });
    },

    readFile: async ({ info, query: { path, offset }, principal, context }) => {
      const { info: file, chunks } = await (await workspace(info, principal)).read(path, offset);
      const bytes = Math.max(0, file.size - offset);
      return downloadResponse(chunks, { bytes, name: file.name, cut: () => abortConnection(context.env) });
    },

    writeFile: async ({ info, query, principal, context, auditTarget }) => {
      auditTarget({ target: query.path.slice(0, 500) });
      // Node's own stream is several times faster than the body of a Request.
      const chunks = await uploadedChunks(context.env.incoming, (bytes) => storageQuota.admit(info.ownerId, bytes));
      return await (await workspace(info, principal)).write(query.path, chunks);
    },

    makeFolder: async ({ info, body, principal, auditTarget }) => {
      auditTarget({ target: body.path.slice(0, 500) });
      await storageQuota.admit(info.ownerId);
      await (await workspace(info, principal)).makeFolder(body.path);
    },

    moveFile: async ({ info, body: { from, to, replace = false }, principal, auditTarget }) => {
      auditTarget({ target: `${from} to ${to}`.slice(0, 500) });
      return await (await workspace(info, principal)).move(from, to, { replace });
    },

    deleteFile: async ({ info, query, principal, auditTarget }) => {
      auditTarget({ target: query.path.slice(0, 500) });
      await (await workspace(info, principal)).delete(query.path, { recursive: query.recursive === 'true' });
    },
  };
}

/** Yields the item that was read ahead, then the rest. */
async function* from<T>(first: IteratorResult<T, unknown>, rest: AsyncIterable<T>): AsyncGenerator<T> {
  if (!first.done) yield first.value;
  yield* rest;
}
