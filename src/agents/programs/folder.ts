/** Where the programs of agents lie, `programs/<agent>/<version>` in the data folder, and which of them there are. */

import { randomBytes } from 'node:crypto';
import { access, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import type { AgentProgram } from './program.ts';

export interface Installed {
  readonly version: string;
  readonly path: string;
  /** What is missing of it; nothing where it can be used. */
  readonly missing: readonly string[];
  /** Milliseconds since 1970. */
  readonly installedAt: number;
}

/** It becomes the name of a folder, and a word of npm's command line. */
const VERSION = /^\d{1,6}\.\d{1,6}\.\d{1,6}(-[0-9A-Za-z.-]{1,40})?$/;

export function isVersion(text: string): boolean {
  return VERSION.test(text);
}

export function checkedVersion(version: string): string {
  if (isVersion(version)) return version;
  const shown = JSON.stringify(version.slice(0, 80));
  throw new CellaError('INVALID_OPTIONS', `${shown} is no version.`, { advice: 'Give an exact one, like 1.2.3.' });
}

export function programsIn(dataDir: string): string {
  return join(dataDir, 'programs');
}

/** `programs` is the folder of all agents. */
export function agentFolder(programs: string, { agent }: Pick<AgentProgram, 'agent'>): string {
  return join(programs, agent);
}

/** For what is on its way there or away: no version, and swept where its process is gone. */
export function partIn(folder: string): string {
  return join(folder, `.part-${process.pid}-${randomBytes(6).toString('hex')}`);
}

/** Newest first. What is still being installed has another name, and is not seen. */
export async function installedVersions(programs: string, program: AgentProgram): Promise<Installed[]> {
  const folder = agentFolder(programs, program);
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const found = await Promise.all(
    names.filter(isVersion).map(async (version) => {
      const path = join(folder, version);
      const { mtimeMs: installedAt } = await stat(path);
      return { version, path, missing: await missingIn(path, program), installedAt };
    }),
  );
  return found.sort((a, b) => b.installedAt - a.installedAt);
}

export async function missingIn(path: string, { parts }: AgentProgram): Promise<string[]> {
  const there = (part: string) =>
    access(join(path, 'node_modules', part)).then(
      () => true,
      () => false,
    );
  const found = await Promise.all(parts.map(async (one) => (await Promise.all(one.map(there))).includes(true)));
  return parts.flatMap(([first = ''], at) => (found[at] ? [] : [first]));
}
