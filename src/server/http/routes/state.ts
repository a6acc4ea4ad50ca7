/** Introspection and state: what the kernel of a session can be asked, and where it can go back to. */

import * as look from '../../../protocol/api/session-routes.ts';
import * as state from '../../../protocol/api/session-routes.ts';
import type { SessionInfo } from '../../../protocol/session-info.ts';
import type { SessionApi } from '../../../session/api.ts';
import { awake } from '../awake.ts';
import type { Service } from '../service.ts';

export function addStateRoutes(service: Service): void {
  const { routes, host, room } = service;
  const api = (info: SessionInfo): Promise<SessionApi> => awake(service, info);

  routes.session(look.CompleteCode, async ({ info, body }) => (await api(info)).complete(body.code, body.cursor));
  routes.session(look.InspectCode, async ({ info, body }) => (await api(info)).inspect(body.code, body.cursor));
  routes.session(look.IsComplete, async ({ info, body }) => (await api(info)).isComplete(body.code));
  routes.session(look.ListVariables, async ({ info }) => ({ variables: await (await api(info)).variables() }));
  routes.session(look.ReadHistory, async ({ info }) => ({
    history: [...(await (await host.open(info.id)).history())],
  }));

  routes.session(state.CreateCheckpoint, async ({ info, body: { name, durable }, about }) => {
    await room.admit(info.ownerId);
    const made = await (await api(info)).checkpoint({
      ...(name === undefined ? {} : { name }),
      ...(durable === undefined ? {} : { durable }),
    });
    about({ target: made.id });
    room.took(info.ownerId, made.bytes ?? 0);
    return made;
  });
  routes.session(state.ListCheckpoints, async ({ info }) => ({ checkpoints: await (await api(info)).checkpoints() }));
  routes.session(state.RestoreCheckpoint, async ({ info, params, about }) => {
    about({ target: params.checkpoint });
    return await (await api(info)).restore(params.checkpoint);
  });
  routes.session(state.DeleteCheckpoint, async ({ info, params, about }) => {
    about({ target: params.checkpoint });
    await (await api(info)).deleteCheckpoint(params.checkpoint);
    return undefined;
  });

  const acts: readonly [typeof state.CommitTransaction, (session: SessionApi) => Promise<void>][] = [
    [state.CommitTransaction, (session) => session.commit()],
    [state.RollbackTransaction, (session) => session.rollback()],
    [state.UndoCell, (session) => session.undo()],
    [state.SaveSession, (session) => session.save()],
    [state.HibernateSession, (session) => session.hibernate()],
    [state.ResetSession, (session) => session.reset()],
    [state.RestartSession, (session) => session.restart()],
  ];
  for (const [endpoint, act] of acts) {
    routes.session(endpoint, async ({ info }) => {
      await act(await api(info));
      return undefined;
    });
  }
}
