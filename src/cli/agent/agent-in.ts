/** The part of a session that is about coding agents, where it has one: sessions of a server do. */

import { CellaError } from '../../protocol/errors.ts';
import type { AgentApi } from '../../session/api.ts';

export function agentIn<S extends object>(session: S): S & AgentApi {
  if (hasAgent(session)) return session;
  throw new CellaError('CAPABILITY_MISSING', 'Coding agents work in sessions of a server, and this is none.', {
    advice: 'Start a server with `cella serve` first, or name one with --url or CELLA_URL.',
  });
}

export function hasAgent<S extends object>(session: S): session is S & AgentApi {
  return 'prompt' in session && typeof session.prompt === 'function';
}
