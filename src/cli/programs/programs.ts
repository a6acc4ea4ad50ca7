/** What can be done with the programs of agents, and what is told of it. */

import type { AgentProgramEntry, AgentProgramRequest, Programs } from '../context.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import { toPlain } from '../texts.ts';

const columns = [
  { title: 'AGENT' },
  { title: 'TESTED' },
  { title: 'INSTALLED' },
  { title: 'STATE' },
  { title: 'WHERE' },
];

export async function install(
  request: AgentProgramRequest,
  programs: Programs,
  report: Report,
  signal: AbortSignal,
): Promise<number> {
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
    if (!report.json) void report.terminal.status(text).catch(() => {});
  };
  const installed = await programs.installAgent(request, { signal, onProgress });
  const { agent, version, path, kept } = installed;
  const text = kept ? `${agent} ${version} is there already, in ${path}.` : `Installed ${agent} ${version} in ${path}.`;
  await report.done({ installed }, toPlain(`${text} It is used from the next prompt on.`));
  return Exit.ok;
}

export async function list(dataDir: string, programs: Programs, report: Report): Promise<number> {
  const agents = await programs.listAgentPrograms(dataDir);
  await report.table({ dataDir, agents }, columns, agents.flatMap(toRows));
  for (const { agent, installed } of agents.filter(({ ready }) => !ready)) {
    const what = installed.length === 0 ? 'installs it' : 'brings what it lacks';
    await report.aside(`\`cella agents install ${agent}\` ${what}.`);
  }
  return Exit.ok;
}

function toRows({ agent, version: tested, used, installed }: AgentProgramEntry): string[][] {
  if (installed.length === 0) return [[agent, tested, '', 'not installed', '']];
  return installed.map(({ version, path, missing }) => {
    const state = missing.length > 0 ? `lacks ${missing.join(', ')}` : version === used ? 'used' : 'not used';
    return [agent, tested, version, state, path].map(toPlain);
  });
}

export async function remove(request: AgentProgramRequest, programs: Programs, report: Report): Promise<number> {
  const removed = await programs.removeAgent(request);
  const versions = removed.map(({ version }) => version).join(', ');
  await report.done({ removed }, toPlain(`Removed ${request.agent} ${versions}.`));
  return Exit.ok;
}
