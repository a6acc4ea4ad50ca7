/** Whether an agent's user can read what it is given: an engine brings it in as it is on disk, which a umask may have closed. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import type { AgentMounts } from '../sandbox/mount-points.ts';

interface User {
  readonly uid: number;
  readonly gid: number;
}

const [READ, ENTER] = [4, 5];

/** As deep as it goes by itself: a program's own files are of one piece, and are opened when it is installed. */
export function checkReadable({ node, runner, programs }: AgentMounts, user: User): void {
  for (const path of [node, join(node, 'node')]) check(node, path, ENTER, user);
  if (runner !== undefined) {
    check(runner, runner, ENTER, user);
    for (const name of readdirSync(runner)) check(runner, join(runner, name), READ, user);
  }
  if (programs === undefined) return;
  const versions = foldersIn(programs).flatMap((agent) => [agent, ...foldersIn(agent)]);
  for (const folder of [programs, ...versions]) check(programs, folder, ENTER, user);
}

/** `whole`: what has to be opened as one. */
function check(whole: string, path: string, wanted: number, { uid, gid }: User): void {
  const { mode, uid: owner, gid: group } = statSync(path);
  const shift = owner === uid ? 6 : group === gid ? 3 : 0;
  if (((mode >> shift) & wanted) === wanted) return;
  throw new CellaError('AGENT_NOT_INSTALLED', `The user that the agent runs as (${uid}) cannot read ${path}.`, {
    advice: `It was installed under a umask that keeps others out. Open it: \`chmod -R go+rX ${whole}\`.`,
  });
}

function foldersIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => join(folder, name));
}
