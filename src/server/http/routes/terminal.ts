/** Terminals in the sandbox of a session. */

import { OpenTerminal } from '../../../protocol/api/execution-routes.ts';
import { CloseCode } from '../../../protocol/api/socket-frames.ts';
import { capabilitiesOf, resolveExecutor } from '../../../protocol/enums.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { perSessionLimit } from '../../request-limits.ts';
import { admitExecution } from '../admit-execution.ts';
import type { Service } from '../service.ts';
import { TerminalSocket } from '../terminal-socket.ts';

/** Of one session at a time. */
const MOST_OPEN = 16;

export function addTerminalRoutes(service: Service): void {
  const { routes, host, followers } = service;
  const open = perSessionLimit('terminals', MOST_OPEN);

  routes.session(OpenTerminal, async ({ info, query: wish, principal, context, recheck }) => {
    const { id, settings } = info;
    const { upgrade } = context.env;
    const executor = resolveExecutor(settings.executor);
    if (!capabilitiesOf(executor).subprocesses) {
      throw new CellaError('CAPABILITY_MISSING', `The executor ${executor} has no terminals.`);
    }
    open.check(id);
    followers.check(principal);
    await admitExecution(service, info);
    // Last: whoever was refused as a WebSocket, and not told why, hears the reason from a request.
    if (!upgrade) throw new CellaError('INVALID_REQUEST', 'This is a WebSocket: ask for an upgrade.');
    const session = await host.open(id);
    // A kernel that cannot be is told as an answer: a WebSocket has few words for it.
    await session.session();
    const log = context.get('log');
    upgrade.accept = (socket) => {
      if (open.isFull(id)) return void socket.close(CloseCode.tooMuch, 'too many terminals');
      const gone = followers.enter(principal, 'terminal');
      const leave = open.enter(id);
      log.info({ session: id, user: principal.userName }, 'terminal opened');
      const left = (code: number) => {
        gone();
        leave();
        log.info({ session: id, user: principal.userName, code }, 'terminal closed');
        void routes.trail.done(context, 'terminal.close', { session: id });
      };
      new TerminalSocket(socket, { service, session, wish, recheck, left, log });
    };
    return undefined;
  });
}
