/** The installed programs of agents, `programs/<agent>/<version>` in the data folder, and which version is active. */

import { randomBytes } from 'node:crypto';
import { access, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import type { AgentName } from '../protocol/turn.ts';

export interface AgentProgram {
  readonly agent: AgentName;
  readonly title: string;
  /** On the npm registry. */
  readonly packageName: string;
  /** The one that the adapter is tested with. */
  readonly version: string;
  /** Its size on disk, for the progress text. */
  readonly megabytes: number;
  /** Required files below node_modules: at least one of each list. */
  readonly parts: readonly (readonly string[])[];
}

export interface InstalledProgram {
  readonly version: string;
  readonly path: string;
  /** Missing files; empty if it can be used. */
  readonly missing: readonly string[];
  /** Milliseconds since 1970. */
  readonly installedAt: number;
}

/** Used as a folder name and in npm's command line. */
const VERSION = /^\d{1,6}\.\d{1,6}\.\d{1,6}(-[0-9A-Za-z.-]{1,40})?$/;

function isVersion(text: string): boolean {
  return VERSION.test(text);
}

export function checkedVersion(version: string): string {
  if (isVersion(version)) return version;
  const shown = JSON.stringify(version.slice(0, 80));
  throw new CellaError('INVALID_OPTIONS', `${shown} is not a version.`, { advice: 'Use an exact one, like 1.2.3.' });
}

export function programsDir(dataDir: string): string {
  return join(dataDir, 'programs');
}

/** `programs` is the folder of all agents. */
export function agentFolder(programs: string, { agent }: Pick<AgentProgram, 'agent'>): string {
  return join(programs, agent);
}

/** A temporary name for installs and removals. Removed later if its process has died. */
export function tempPath(folder: string): string {
  return join(folder, `.part-${process.pid}-${randomBytes(6).toString('hex')}`);
}

/** Newest first, without unfinished installs. */
export async function installedVersions(programs: string, program: AgentProgram): Promise<InstalledProgram[]> {
  const folder = agentFolder(programs, program);
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const found = await Promise.all(
    names.filter(isVersion).map(async (version) => {
      const path = join(folder, version);
      const { mtimeMs: installedAt } = await stat(path);
      return { version, path, missing: await missingFiles(path, program), installedAt };
    }),
  );
  return found.sort((a, b) => b.installedAt - a.installedAt);
}

export async function missingFiles(path: string, { parts }: AgentProgram): Promise<string[]> {
  const there = (part: string) =>
    access(join(path, 'node_modules', part)).then(
      () => true,
      () => false,
    );
  const found = await Promise.all(parts.map(async (one) => (await Promise.all(one.map(there))).includes(true)));
  return parts.flatMap(([first = ''], at) => (found[at] ? [] : [first]));
}

/** The file beside the versions that names the active one. */
const CHOICE = 'used';

/**
 * The version that was chosen last. If it is missing or damaged: the one that the adapter is tested with, else the one
 * that was installed last. Undefined if none is complete.
 */
export async function findActiveVersion(
  programs: string,
  program: AgentProgram,
): Promise<InstalledProgram | undefined> {
  const [all, chosen] = await Promise.all([installedVersions(programs, program), chosenVersion(programs, program)]);
  const whole = all.filter(({ missing }) => missing.length === 0);
  const named = (wanted: string | undefined) => whole.find(({ version }) => version === wanted);
  return named(chosen) ?? named(program.version) ?? whole[0];
}

export async function activeProgram(programs: string, program: AgentProgram): Promise<InstalledProgram> {
  const used = await findActiveVersion(programs, program);
  if (used) return used;
  throw new CellaError('AGENT_NOT_INSTALLED', `${program.title} is not installed in ${programs}.`, {
    advice: `Install it where the server runs: \`cella agents install ${program.agent}\`.`,
    details: { agent: program.agent, version: program.version },
  });
}

/** Takes effect with the next turn. */
export async function setActiveVersion(programs: string, program: AgentProgram, version: string): Promise<void> {
  const folder = agentFolder(programs, program);
  const part = tempPath(folder);
  try {
    await writeFile(part, `${checkedVersion(version)}\n`, { mode: 0o644 });
    await rename(part, join(folder, CHOICE));
  } finally {
    await rm(part, { force: true });
  }
}

/** An invalid version counts as no choice. */
async function chosenVersion(programs: string, program: AgentProgram): Promise<string | undefined> {
  const text = await readFile(join(agentFolder(programs, program), CHOICE), 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  const version = text.trim();
  return isVersion(version) ? version : undefined;
}
