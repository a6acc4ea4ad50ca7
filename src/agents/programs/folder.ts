/** Where the programs of agents lie: `programs/<agent>/<version>` in the data folder. */

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

export function checkedVersion(version: string): string {
  if (VERSION.test(version)) return version;
  const shown = JSON.stringify(version.slice(0, 80));
  throw new CellaError('INVALID_OPTIONS', `${shown} is no version.`, { advice: 'Give an exact one, like 1.2.3.' });
}

export function agentFolder(dataDir: string, { agent }: AgentProgram): string {
  return join(dataDir, 'programs', agent);
}

/** Newest first. What is still being installed has another name, and is not seen. */
export async function installedVersions(dataDir: string, program: AgentProgram): Promise<Installed[]> {
  const folder = agentFolder(dataDir, program);
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const found = await Promise.all(
    names
      .filter((name) => VERSION.test(name))
      .map(async (version) => {
        const path = join(folder, version);
        const { mtimeMs: installedAt } = await stat(path);
        return { version, path, missing: await missingIn(path, program), installedAt };
      }),
  );
  return found.sort((a, b) => b.installedAt - a.installedAt);
}

/** The version that the adapter is written for; where it is not there, the one that was installed last. */
export async function programFolder(dataDir: string, program: AgentProgram): Promise<string> {
  const whole = (await installedVersions(dataDir, program)).filter(({ missing }) => missing.length === 0);
  const chosen = whole.find(({ version }) => version === program.version) ?? whole[0];
  if (chosen) return chosen.path;
  throw new CellaError('AGENT_NOT_INSTALLED', `${program.title} is not installed in ${dataDir}.`, {
    advice: `Install it where the server runs: \`cella agents install ${program.agent}\`.`,
  });
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
