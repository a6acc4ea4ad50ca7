/** What can be done with the programs of agents, and what is told of it. */

import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { AgentProgramCommands, AgentProgramEntry, AgentProgramRequest } from '../context.ts';
import { escapeControls } from '../format.ts';

const columns = [
  { title: 'AGENT' },
  { title: 'TESTED' },
  { title: 'INSTALLED' },
  { title: 'STATE' },
  { title: 'WHERE' },
];

export async function install(
  request: AgentProgramRequest,
  programs: AgentProgramCommands,
  report: CommandOutput,
  signal: AbortSignal,
): Promise<number> {
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
    if (!report.json) void report.terminal.status(text).catch(() => {});
  };
  const installed = await programs.installAgent(request, { signal, onProgress });
  const { agent, version, path, kept } = installed;
  const text = kept ? `${agent} ${version} is there already, in ${path}.` : `Installed ${agent} ${version} in ${path}.`;
  await report.success({ installed }, escapeControls(`${text} It is used from the next prompt on.`));
  return Exit.ok;
}

export async function list(dataDir: string, programs: AgentProgramCommands, report: CommandOutput): Promise<number> {
  const agents = await programs.listAgentPrograms(dataDir);
  await report.table({ dataDir, agents }, columns, agents.flatMap(toRows));
  for (const { agent, installed } of agents.filter(({ ready }) => !ready)) {
    const what = installed.length === 0 ? 'installs it' : 'brings what it lacks';
    await report.note(`\`cella agents install ${agent}\` ${what}.`);
  }
  return Exit.ok;
}

function toRows({ agent, version: tested, used, installed }: AgentProgramEntry): string[][] {
  if (installed.length === 0) return [[agent, tested, '', 'not installed', '']];
  return installed.map(({ version, path, missing }) => {
    const state = missing.length > 0 ? `lacks ${missing.join(', ')}` : version === used ? 'used' : 'not used';
    return [agent, tested, version, state, path].map(escapeControls);
  });
}

export async function remove(
  request: AgentProgramRequest,
  programs: AgentProgramCommands,
  report: CommandOutput,
): Promise<number> {
  const removed = await programs.removeAgent(request);
  const versions = removed.map(({ version }) => version).join(', ');
  await report.success({ removed }, escapeControls(`Removed ${request.agent} ${versions}.`));
  return Exit.ok;
}
