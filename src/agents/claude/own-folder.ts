/**
 * What sets Claude's program up, in a folder of one turn. It lies outside of the session's home: code of the kernel
 * writes there, and could put variables, hooks and servers into what the program reads. Conversations alone stay in the home.
 */

import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentSetup } from '../contract.ts';
import { makeFolder } from './home-files.ts';

const CONVERSATIONS = 'projects';

export interface OwnFolder extends AsyncDisposable {
  /** The program's own: empty, but for a link to the conversations. */
  readonly configDir: string;
  /** For the skills and commands of the profile. */
  readonly profileDir: string;
  /** The home that the program itself has: empty. What shells and git read in a home by themselves would run unasked. */
  readonly emptyHome: string;
  /** What its commands begin with, by which they have the session's home. */
  readonly prelude: string;
}

/** Where conversations are kept between turns. */
export function conversationsDir({ homeDir }: Pick<AgentSetup, 'homeDir'>): string {
  return join(homeDir, '.claude', CONVERSATIONS);
}

/** In the folder for what is passing, which every enclosure has for itself. */
export async function makeOwnFolder(setup: Pick<AgentSetup, 'homeDir'>): Promise<OwnFolder> {
  const conversations = conversationsDir(setup);
  await makeFolder(setup.homeDir, conversations);
  const folder = await mkdtemp(join(tmpdir(), 'cella-claude-'));
  const [configDir, profileDir] = [join(folder, 'config'), join(folder, 'profile')];
  const [emptyHome, prelude] = [join(folder, 'home'), join(folder, 'prelude.sh')];
  await Promise.all([mkdir(configDir), mkdir(emptyHome), writeFile(prelude, `export HOME=${quoted(setup.homeDir)}\n`)]);
  await symlink(conversations, join(configDir, CONVERSATIONS));
  // What a program that was killed has left half written goes with the rest.
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  return { configDir, profileDir, emptyHome, prelude, [Symbol.asyncDispose]: remove };
}

/** One word for a shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
