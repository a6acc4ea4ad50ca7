/** Which installed version of an agent is used: by the server for each turn, and in what the command line tells. */

import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { agentFolder, checkedVersion, type Installed, installedVersions, isVersion, partIn } from './folder.ts';
import type { AgentProgram } from './program.ts';

/** Beside the versions: the one that was asked for last. */
const CHOICE = 'used';

/**
 * The version that an install has asked for last. Where that has gone or is damaged, the one that the adapter is tested
 * with, else the one that was installed last. Undefined where none is whole.
 */
export async function findUsed(programs: string, program: AgentProgram): Promise<Installed | undefined> {
  const [all, chosen] = await Promise.all([installedVersions(programs, program), chosenVersion(programs, program)]);
  const whole = all.filter(({ missing }) => missing.length === 0);
  const named = (wanted: string | undefined) => whole.find(({ version }) => version === wanted);
  return named(chosen) ?? named(program.version) ?? whole[0];
}

export async function usedProgram(programs: string, program: AgentProgram): Promise<Installed> {
  const used = await findUsed(programs, program);
  if (used) return used;
  throw new CellaError('AGENT_NOT_INSTALLED', `${program.title} is not installed in ${programs}.`, {
    advice: `Install it where the server runs: \`cella agents install ${program.agent}\`.`,
    details: { agent: program.agent, version: program.version },
  });
}

/** From the next turn on. */
export async function useVersion(programs: string, program: AgentProgram, version: string): Promise<void> {
  const folder = agentFolder(programs, program);
  const part = partIn(folder);
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
