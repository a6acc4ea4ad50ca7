/** `cella agents`: the programs of coding agents that are installed here. */

import type { Command } from 'commander';
import { settings } from '../../settings/settings-table.ts';
import { Exit } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import type { AgentProgramCommands, AgentProgramEntry, AgentProgramRequest } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls } from '../format.ts';
import { addSettings, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { resolveDataDir } from '../target-options.ts';

interface Flags {
  readonly data?: string;
  readonly json?: boolean;
  readonly version?: string;
}

export function addAgents(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.agents);
  const report = (flags: Flags) => new CommandOutput(context.terminal, { json: flags.json === true });
  const requestOf = (agent: string, flags: Flags) => ({
    agent,
    dataDir: resolveDataDir(flags, context.defaults),
    ...(flags.version === undefined ? {} : { version: flags.version }),
  });
  addFlags(defineCommand(group, 'install', 'bring the program of an agent, with npm', help.install))
    .argument('<agent>', 'its name, like claude', parseText)
    .option('--version <version>', 'another version than the one that Cella is tested with', parseText)
    .action(async (agent: string, flags: Flags) => {
      const request = requestOf(agent, flags);
      done(await runAbortable(context, (signal) => install(request, context, report(flags), signal)));
    });
  addFlags(defineCommand(group, 'list', 'all agents: versions, what is missing, and where they lie', help.list)).action(
    async (flags: Flags) => {
      done(await list(resolveDataDir(flags, context.defaults), context, report(flags)));
    },
  );
  addFlags(defineCommand(group, 'remove', 'remove the program of an agent', help.remove))
    .argument('<agent>', 'its name', parseText)
    .option('--version <version>', 'this version alone', parseText)
    .action(async (agent: string, flags: Flags) => {
      done(await remove(requestOf(agent, flags), context, report(flags)));
    });
}

function addFlags(command: Command): Command {
  return addSettings(command, [settings.dataDir, settings.config]).option('--json', 'print one JSON object');
}

const columns = [
  { title: 'AGENT' },
  { title: 'TESTED' },
  { title: 'INSTALLED' },
  { title: 'STATE' },
  { title: 'WHERE' },
];

async function install(
  request: AgentProgramRequest,
  programs: AgentProgramCommands,
  report: CommandOutput,
  signal: AbortSignal,
): Promise<number> {
  const onProgress = (text: string) => {
    // A failed write fails again with the result, and is reported there.
    if (!report.json) void report.terminal.status(text).catch(() => {});
  };
  const installed = await programs.installAgent(request, { signal, onProgress });
  const { agent, version, path, kept } = installed;
  const text = kept ? `${agent} ${version} is there already, in ${path}.` : `Installed ${agent} ${version} in ${path}.`;
  await report.success({ installed }, escapeControls(`${text} It is used from the next prompt on.`));
  return Exit.ok;
}

async function list(dataDir: string, programs: AgentProgramCommands, report: CommandOutput): Promise<number> {
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

async function remove(
  request: AgentProgramRequest,
  programs: AgentProgramCommands,
  report: CommandOutput,
): Promise<number> {
  const removed = await programs.removeAgent(request);
  const versions = removed.map(({ version }) => version).join(', ');
  await report.success({ removed }, escapeControls(`Removed ${request.agent} ${versions}.`));
  return Exit.ok;
}

const help = {
  agents: `
Examples:
  $ cella agents list              which coding agents there are, and which are installed
  $ cella agents install claude    bring Claude's program, about 410 MB
  $ cella agents remove claude

These are the programs that work on a prompt. \`cella ps\` shows the agents whose kernels Cella keeps.
See docs/agents.md.`,
  install: `
Examples:
  $ cella agents install claude
  $ cella agents install claude --version 0.3.325
  $ cella agents install claude --data /srv/cella

It is brought with npm from its registry, and no script of a package is run. One that is stopped or
fails leaves nothing behind. What was installed last is used from the next prompt on; without --version
that is the one that Cella is tested with.`,
  list: `
Examples:
  $ cella agents list
  $ cella agents list --json | jq -r '.agents[] | select(.ready) | .agent'`,
  remove: `
Examples:
  $ cella agents remove claude
  $ cella agents remove claude --version 0.3.325

Conversations of agents lie with their sessions, and stay.`,
};
