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
import { abortConnection } from '../request-context.ts';
import type { Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';

/** Of one session at a time. */
const MOST_WATCHES = 32;

export function fileHandlers(service: ServerContext): Handlers<typeof fileRoutes> {
  const { host, kernels, storageQuota, followers } = service;
  const watches = perSessionLimit('watches', MOST_WATCHES);
  const workspace = async (info: SessionInfo, { userId }: Principal): Promise<WorkspaceFiles> => {
    const session = await host.open(info.id);
    const there = await session.workspace();
    const whose = `user ${userId}`;
    if (there !== undefined) return new WorkspaceFiles({ ...there, whose });
    // The first kernel makes it.
    await kernels.admit(info);
    return new WorkspaceFiles({ ...(await session.session()).files, whose });
  };

  return {
    listFiles: async ({ info, query, principal }) => (await workspace(info, principal)).list(query.path),

    watchFiles: async ({ info, query, principal, context, reauthorize }) => {
      followers.check(principal);
      watches.check(info.id);
      // Counted before anything is waited for: of many that come at once, no more get in.
      const left = watches.enter(info.id);
      const over = new AbortController();
      const begin = async () => {
        const changes = (await workspace(info, principal)).watch(query.path, processWatches, over.signal);
        // A folder that cannot be watched is told as an answer.
        return { changes, first: await changes.next() };
      };
      const { changes, first } = await begin().catch((error) => {
        left();
        throw error;
      });
      const form = negotiateFormat(context.req.header('accept')) === 'sse' ? 'sse' : 'ndjson';
      const source = (signal: AbortSignal) => {
        onAbort(signal, () => {
          left();
          over.abort();
          void changes.return(undefined);
        });
        return from(first, changes);
      };
      return streamUntilGone(service, source, {
        form,
        principal,
        reauthorize,
        cut: () => abortConnection(context.env),
      });
    },

    readFile: async ({ info, query: { path, offset }, principal, context }) => {
      const { info: file, chunks } = await (await workspace(info, principal)).read(path, offset);
      const bytes = Math.max(0, file.size - offset);
      return downloadResponse(chunks, { bytes, name: file.name, cut: () => abortConnection(context.env) });
    },

    writeFile: async ({ info, query, principal, context, auditTarget }) => {
      auditTarget({ target: query.path.slice(0, 500) });
      // As Node reads it: several times faster than through the body of a Request.
      const chunks = await uploadedChunks(context.env.incoming, (bytes) => storageQuota.admit(info.ownerId, bytes));
      return await (await workspace(info, principal)).write(query.path, chunks);
    },

    makeFolder: async ({ info, body, principal, auditTarget }) => {
      auditTarget({ target: body.path.slice(0, 500) });
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

/** What was read ahead, and then the rest. */
async function* from<T>(first: IteratorResult<T, unknown>, rest: AsyncIterable<T>): AsyncGenerator<T> {
  if (!first.done) yield first.value;
  yield* rest;
}
