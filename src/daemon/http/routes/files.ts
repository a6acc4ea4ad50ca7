/** The files of a session's workspace, as streams of any size. */

import * as wire from '../../../protocol/http/file-routes.ts';
import type { SessionInfo } from '../../../protocol/http/sessions.ts';
import { Workspace } from '../../files/workspace.ts';
import { announcedBytes } from '../body.ts';
import { bytesResponse } from '../bytes.ts';
import { cut } from '../exchange.ts';
import type { Service } from '../service.ts';

export function addFileRoutes({ routes, host, kernels, room }: Service): void {
  const workspace = async (info: SessionInfo): Promise<Workspace> => {
    const session = await host.open(info.id);
    const there = await session.workspace();
    if (there !== undefined) return new Workspace(there);
    // The first kernel makes it.
    await kernels.admit(info);
    return new Workspace((await session.session()).cwd);
  };

  routes.session(wire.ListFiles, async ({ info, query }) => (await workspace(info)).list(query.path));

  routes.session(wire.ReadFile, async ({ info, query: { path, offset }, context }) => {
    const { info: file, chunks } = await (await workspace(info)).read(path, offset);
    const bytes = Math.max(0, file.size - offset);
    return bytesResponse(chunks, { bytes, name: file.name, cut: () => cut(context.env) });
  });

  routes.session(wire.WriteFile, async ({ info, query, context, about }) => {
    about({ target: query.path.slice(0, 500) });
    await room.admit(info.ownerId, announcedBytes(context.req.header('content-length')));
    // As Node reads it: several times faster than through the body of a Request.
    return await (await workspace(info)).write(query.path, context.env.incoming);
  });

  routes.session(wire.MakeFolder, async ({ info, body, about }) => {
    about({ target: body.path.slice(0, 500) });
    await (await workspace(info)).makeFolder(body.path);
    return undefined;
  });

  routes.session(wire.MoveFile, async ({ info, body: { from, to, replace = false }, about }) => {
    about({ target: `${from} to ${to}`.slice(0, 500) });
    return await (await workspace(info)).move(from, to, { replace });
  });

  routes.session(wire.DeleteFile, async ({ info, query, about }) => {
    about({ target: query.path.slice(0, 500) });
    await (await workspace(info)).delete(query.path, { recursive: query.recursive === 'true' });
    return undefined;
  });
}
