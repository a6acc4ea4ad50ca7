/** Executions in a session of the server, as tests wait for them. */

import type { ServerSession } from '../../../src/server/sessions/server-session.ts';
import type { ServerExecuteOptions } from '../../../src/server/sessions/session-types.ts';

/** Resolves when its turn has come. */
export async function start(session: ServerSession, code: string, options?: ServerExecuteOptions) {
  const { id: execution, replayed, started, outcome } = await session.execute(code, options);
  return { execution, replayed, firstSeq: await started, outcome };
}

/** Resolves when it has ended. */
export async function execute(session: ServerSession, code: string, options?: ServerExecuteOptions) {
  const { outcome, ...begun } = await start(session, code, options);
  return { ...begun, result: await outcome };
}
