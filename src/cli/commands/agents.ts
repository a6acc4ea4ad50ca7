/** `cella agents`: the coding agent programs installed here. */

import type { Command } from 'commander';
import { resolveDataDir } from '../../settings/process-config.ts';
import { settings } from '../../settings/settings-table.ts';
import { runAbortable } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls } from '../format.ts';
import { addSettings, parseText } from '../options.ts';

interface AgentsFlags {
  readonly data?: string;
  readonly json?: boolean;
  readonly version?: string;
}

export function addAgents(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.agents);
  const { terminal, defaults } = context;
  const requestOf = (agent: string, flags: AgentsFlags) => ({
    agent,
    dataDir: resolveDataDir(flags, defaults),
    version: flags.version,
  });
  addFlags(defineCommand(group, 'install', 'install the program of an agent, with npm', help.install))
    .argument('<agent>', 'name of the agent, such as claude', parseText)
    .option('--version <version>', 'version (default: the one that Cella is tested with)', parseText)
    .action(async (agent: string, flags: AgentsFlags) => {
      const [request, output] = [requestOf(agent, flags), new CommandOutput(terminal, flags)];
      done(await runAbortable(context, (signal) => install(request, output, signal)));
    });
  addFlags(defineCommand(group, 'list', 'list agents with versions, missing parts and paths', help.list)).action(
    async (flags: AgentsFlags) => {
      done(await list(resolveDataDir(flags, defaults), new CommandOutput(terminal, flags)));
    },
  );
  addFlags(defineCommand(group, 'uninstall', 'uninstall the program of an agent', help.uninstall))
    .argument('<agent>', 'name of the agent', parseText)
    .option('--version <version>', 'only this version (default: all versions)', parseText)
    .action(async (agent: string, flags: AgentsFlags) => {
      done(await uninstall(requestOf(agent, flags), new CommandOutput(terminal, flags)));
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
  { title: 'PATH' },
];

interface ProgramRequest {
  readonly agent: string;
  readonly dataDir: string;
  /** Default: the version that Cella is tested with; to uninstall, all versions. */
  readonly version?: string;
}

async function install(request: ProgramRequest, report: CommandOutput, signal: AbortSignal): Promise<number> {
  const [{ agentProgram }, { installProgram }, { programsDir }, { dataFolder }] = await Promise.all([
    import('../../agents/registry.ts'),
    import('../../agents/install-program.ts'),
    import('../../agents/installed-programs.ts'),
    import('../../session/data-folders.ts'),
  ]);
  const programs = programsDir(dataFolder(request.dataDir));
  const options = { programs, version: request.version, signal, onProgress: report.progress };
  const installed = { agent: request.agent, ...(await installProgram(agentProgram(request.agent), options)) };
  const { agent, version, path, kept } = installed;
  const text = kept
    ? `${agent} ${version} is already installed in ${path}.`
    : `Installed ${agent} ${version} in ${path}.`;
  await report.success({ installed }, escapeControls(`${text} The next prompt uses it.`));
  return Exit.ok;
}

async function list(dataDir: string, report: CommandOutput): Promise<number> {
  const agents = await listPrograms(dataDir);
  await report.table({ dataDir, agents }, columns, agents.flatMap(toRows));
  for (const { agent, installed } of agents.filter(({ ready }) => !ready)) {
    const what = installed.length === 0 ? `Install ${agent}` : `Install the missing parts of ${agent}`;
    await report.note(`${what} with \`cella agents install ${agent}\`.`);
  }
  return Exit.ok;
}

async function listPrograms(dataDir: string) {
  const [{ agentPrograms }, { findActiveVersion, installedVersions, programsDir }] = await Promise.all([
    import('../../agents/registry.ts'),
    import('../../agents/installed-programs.ts'),
  ]);
  const programs = programsDir(dataDir);
  return await Promise.all(
    agentPrograms.map(async (program) => {
      const { agent, title, packageName, version } = program;
      const used = (await findActiveVersion(programs, program))?.version ?? null;
      const installed = await installedVersions(programs, program);
      return { agent, title, packageName, version, ready: used !== null, used, installed };
    }),
  );
}

type ListedAgent = Awaited<ReturnType<typeof listPrograms>>[number];

function toRows({ agent, version: tested, used, installed }: ListedAgent): string[][] {
  if (installed.length === 0) return [[agent, tested, '', 'not installed', '']];
  return installed.map(({ version, path, missing }) => {
    const state = missing.length > 0 ? `incomplete: ${missing.join(', ')}` : version === used ? 'used' : 'not used';
    return [agent, tested, version, state, path].map(escapeControls);
  });
}

async function uninstall(request: ProgramRequest, report: CommandOutput): Promise<number> {
  const [{ agentProgram }, { removeProgram }, { programsDir }] = await Promise.all([
    import('../../agents/registry.ts'),
    import('../../agents/install-program.ts'),
    import('../../agents/installed-programs.ts'),
  ]);
  const deleted = await removeProgram(programsDir(request.dataDir), agentProgram(request.agent), request.version);
  const versions = deleted.map(({ version }) => version).join(', ');
  await report.success({ deleted }, escapeControls(`Uninstalled ${request.agent} ${versions}.`));
  return Exit.ok;
}

const help = {
  agents: `
Examples:
  $ cella agents list              list coding agents, and which are installed
  $ cella agents install claude    install Claude's program, about 410 MB
  $ cella agents uninstall claude

Each coding agent needs a program, which Cella installs in the data folder. \`cella prompt\` sends
prompts to the agent. See docs/agents.md.`,
  install: `
Examples:
  $ cella agents install claude
  $ cella agents install claude --version 0.3.325
  $ cella agents install claude --data /srv/cella

Downloads the program from the npm registry, and runs no scripts of packages. If it stops or fails, it
leaves nothing behind. From the next prompt on, Cella uses the version that you installed last.`,
  list: `
Examples:
  $ cella agents list
  $ cella agents list --json | jq -r '.agents[] | select(.ready) | .agent'`,
  uninstall: `
Examples:
  $ cella agents uninstall claude
  $ cella agents uninstall claude --version 0.3.325

Conversations of agents are part of their sessions, and are kept.`,
};
