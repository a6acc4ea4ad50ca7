/** `cella sessions attach`: the line editor of `cella repl`, in a session of a server. */

import type { Client } from '../../client/index.ts';
import type { ProgramContext } from '../program.ts';
import { repl } from '../repl.ts';
import { findSession } from './server.ts';

/** Leaving it closes nothing at the server. */
export async function attach(client: Client, name: string, context: ProgramContext): Promise<number> {
  const { id, settings } = await findSession(client, name);
  const { terminal, signals, version, defaults } = context;
  const openSession = () => client.session(id);
  const session = { dataDir: defaults.dataDir, sandbox: settings.sandbox === 'off' ? 'off' : 'on' } as const;
  return await repl({ session, version }, { terminal, signals, openSession });
}
