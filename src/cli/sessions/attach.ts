/** `cella sessions attach`: the line editor of `cella repl`, in a session of a server. */

import type { Client } from '../../client/index.ts';
import { findSession } from '../backend/find-server.ts';
import type { OpenOptions } from '../context.ts';
import type { ProgramContext } from '../program.ts';
import { repl } from '../repl.ts';

/** Leaving it closes nothing at the server. */
export async function attach(client: Client, name: string, context: ProgramContext): Promise<number> {
  const { id } = await findSession(client, name);
  const { terminal, signals, version, defaults } = context;
  const openSession = ({ approve }: OpenOptions) => client.session(id, approve === undefined ? {} : { approve });
  const session = { dataDir: defaults.dataDir, sandbox: 'on' } as const;
  return await repl({ session, version }, { terminal, signals, openSession });
}
