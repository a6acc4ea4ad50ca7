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
  /** What it takes on the disk, for people who wait for it. */
  readonly megabytes: number;
  /** What must be there, under node_modules: of each list one. */
  readonly parts: readonly (readonly string[])[];
}

export interface InstalledProgram {
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

export function programsDir(dataDir: string): string {
  return join(dataDir, 'programs');
}

/** `programs` is the folder of all agents. */
export function agentFolder(programs: string, { agent }: Pick<AgentProgram, 'agent'>): string {
  return join(programs, agent);
}

/** For what is on its way there or away: no version, and swept where its process is gone. */
export function tempPath(folder: string): string {
  return join(folder, `.part-${process.pid}-${randomBytes(6).toString('hex')}`);
}

/** Newest first. What is still being installed has another name, and is not seen. */
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

/** Beside the versions: the one that was asked for last. */
const CHOICE = 'used';

/**
 * The version that an install has asked for last. Where that has gone or is damaged, the one that the adapter is tested
 * with, else the one that was installed last. Undefined where none is whole.
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

/** From the next turn on. */
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

/** What stands there and is no version counts as no choice. */
async function chosenVersion(programs: string, program: AgentProgram): Promise<string | undefined> {
  const text = await readFile(join(agentFolder(programs, program), CHOICE), 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  const version = text.trim();
  return isVersion(version) ? version : undefined;
}
