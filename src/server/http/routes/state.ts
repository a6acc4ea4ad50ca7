/** Introspection and state: what the kernel of a session can be asked, and where it can go back to. */

import * as state from '../../../protocol/api/session-routes.ts';
import * as introspectionRoutes from '../../../protocol/api/session-routes.ts';
import * as stateRoutes from '../../../protocol/api/session-routes.ts';
import type { SessionInfo } from '../../../protocol/session-info.ts';
import type { SessionApi } from '../../../session/api.ts';
import { awake } from '../awake.ts';
import type { Service } from '../service.ts';

export function addStateRoutes(service: Service): void {
  const { routes, host, room } = service;
  const api = (info: SessionInfo): Promise<SessionApi> => awake(service, info);

  routes.session(introspectionRoutes.CompleteCode, async ({ info, body }) =>
    (await api(info)).complete(body.code, body.cursor),
  );
  routes.session(introspectionRoutes.InspectCode, async ({ info, body }) =>
    (await api(info)).inspect(body.code, body.cursor),
  );
  routes.session(introspectionRoutes.IsComplete, async ({ info, body }) => (await api(info)).isComplete(body.code));
  routes.session(introspectionRoutes.ListVariables, async ({ info }) => ({
    variables: await (await api(info)).variables(),
  }));
  routes.session(introspectionRoutes.ReadHistory, async ({ info }) => ({
    history: [...(await (await host.open(info.id)).history())],
  }));

  routes.session(stateRoutes.CreateCheckpoint, async ({ info, body: { name, durable }, about }) => {
    await room.admit(info.ownerId);
    const made = await (await api(info)).checkpoint({
      ...(name === undefined ? {} : { name }),
      ...(durable === undefined ? {} : { durable }),
    });
    about({ target: made.id });
    room.took(info.ownerId, made.bytes ?? 0);
    return made;
  });
  routes.session(stateRoutes.ListCheckpoints, async ({ info }) => ({
    checkpoints: await (await api(info)).checkpoints(),
  }));
  routes.session(stateRoutes.RestoreCheckpoint, async ({ info, params, about }) => {
    about({ target: params.checkpoint });
    return await (await api(info)).restore(params.checkpoint);
  });
  routes.session(stateRoutes.DeleteCheckpoint, async ({ info, params, about }) => {
    about({ target: params.checkpoint });
    await (await api(info)).deleteCheckpoint(params.checkpoint);
    return undefined;
  });

  const acts: readonly [typeof stateRoutes.CommitTransaction, (session: SessionApi) => Promise<void>][] = [
    [stateRoutes.CommitTransaction, (session) => session.commit()],
    [stateRoutes.RollbackTransaction, (session) => session.rollback()],
    [stateRoutes.UndoCell, (session) => session.undo()],
    [stateRoutes.SaveSession, (session) => session.save()],
    [stateRoutes.HibernateSession, (session) => session.hibernate()],
    [stateRoutes.ResetSession, (session) => session.reset()],
    [stateRoutes.RestartSession, (session) => session.restart()],
  ];
  for (const [endpoint, act] of acts) {
    routes.session(endpoint, async ({ info }) => {
      await act(await api(info));
      return undefined;
    });
  }
}
