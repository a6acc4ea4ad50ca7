/** The session of an agent at a server, for one command: the one that is there, or a new one. */

import type { ClientSession, SessionInfo, UseOptions } from '../../client/index.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { OpenOptions } from '../context.ts';
import { checkAgrees, checkTellable, wishOf } from './options.ts';
import type { Reached } from './reach.ts';

/** Whoever cannot answer an approval may leave it to others who use the session. */
type AtServer = Omit<OpenOptions, 'approve'> & Pick<UseOptions, 'approve'>;

export async function openAt(reached: Reached, options: AtServer): Promise<ClientSession> {
  checkTellable(options, reached);
  const { client, here } = reached;
  const info = await findOrMake(reached, options);
  const { undo = 0, approve, onProgress } = options;
  // Its kernel begins again with the same names, as it would without a server.
  if (info.settings.undo < undo) await client.sessions.update(info.id, { undo });
  const use: UseOptions = {
    // Code ends with its command. A network may fail for a while, and a process of this machine does not.
    stop: here ? 'when-gone' : 'when-closed',
    ...(approve === undefined ? {} : { approve }),
  };
  const session = await client.session(info.id, use);
  if (options.syncDepsOnStart) await installDeps(session, onProgress);
  return session;
}

/** The caller's own, by its key. */
export async function findAt({ client }: Reached, agentKey: string): Promise<SessionInfo | undefined> {
  const { sessions } = await client.sessions.list({ agentKey, owner: client.me.userId, limit: 1 });
  return sessions[0];
}

/** As a session takes it: a key of nothing but spaces is none. */
export function keyOf(agentKey = ''): string {
  return agentKey.trim() === '' ? 'default' : agentKey;
}

async function findOrMake(reached: Reached, options: AtServer): Promise<SessionInfo> {
  const agentKey = keyOf(options.agentKey);
  const there = await findAt(reached, agentKey);
  if (there) {
    checkAgrees(options, there);
    return there;
  }
  try {
    return await reached.client.sessions.create({ agentKey, ...wishOf(options) });
  } catch (error) {
    // Somebody has made it meanwhile.
    const taken = error instanceof CellaError && error.code === 'SESSION_CONFLICT';
    const made = taken ? await findAt(reached, agentKey) : undefined;
    if (!made) throw error;
    checkAgrees(options, made);
    return made;
  }
}

/** What cannot be installed is told, and keeps no code from running. */
async function installDeps(session: ClientSession, onProgress: OpenOptions['onProgress']): Promise<void> {
  const tell = (text: string) => onProgress?.(text);
  const { failed } = await session.deps.sync({ onProgress: tell });
  for (const { requirement, reason } of failed) tell(`${requirement} could not be installed: ${reason}`);
}
