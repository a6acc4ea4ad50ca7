/** The flags that the commands on tools, skills, artifacts and deps share. */

import { type Command, Option } from 'commander';
import type { Defaults } from './arguments.ts';
import type { CommandContext, NamespacesOptions, Stores } from './context.ts';
import { addExecutorFlags, bringsPython, type ExecutorFlags, executorOptionsOf } from './executor-flags.ts';
import { addPackageFlags, collect, type PackageFlags, packageOptionsOf } from './package-flags.ts';
import { parseText } from './parse-text.ts';
import { Report } from './report.ts';
import { addStorageFlags } from './storage-flags.ts';
import { typedFlags } from './typed-flags.ts';
import { addWhereFlags, type WhereFlags, whereOf } from './where-flags.ts';

export interface ThingFlags extends WhereFlags, PackageFlags, ExecutorFlags {
  readonly agent?: string;
  readonly python?: string;
  readonly tools?: readonly string[];
  readonly json?: boolean;
}

export function addThingFlags(command: Command): Command {
  return addLocalThingFlags(addWhereFlags(command.option('--json', 'print one JSON object')));
}

/** For what works on storages, and with no server. */
export function addStoreFlags(command: Command): Command {
  return addLocalThingFlags(addStorageFlags(command.option('--json', 'print one JSON object')));
}

function addLocalThingFlags(command: Command): Command {
  return command
    .addOption(new Option('--agent <key>', 'all agents of a storage share these; taken and not needed').hideHelp())
    .addOption(
      new Option('--python <path>', 'the Python of the kernels (default: CELLA_PYTHON, else python3)').argParser(
        parseText,
      ),
    );
}

export function addToolsFlag(command: Command): Command {
  return command.option('--tools <dir>', 'a folder with more definitions of tools (default: CELLA_TOOLS)', collect);
}

export function addThingPackageFlags(command: Command): Command {
  return addExecutorFlags(addPackageFlags(addThingFlags(command)));
}

export function namespacesOptions(flags: ThingFlags, defaults: Defaults): NamespacesOptions {
  const executor = executorOptionsOf(flags, defaults);
  const python = flags.python ?? (bringsPython(executor) ? undefined : defaults.python);
  const packages = packageOptionsOf(flags, defaults);
  const toolFolders = flags.tools ?? defaults.toolFolders;
  const agentKey = flags.agent ?? defaults.agentKey;
  const typed = typedFlags(flags);
  return {
    ...whereOf(flags, defaults),
    ...(agentKey === undefined ? {} : { agentKey }),
    ...(typed.length === 0 ? {} : { typed }),
    ...executor,
    ...(python === undefined ? {} : { python }),
    ...(packages === undefined ? {} : { packages }),
    ...(toolFolders === undefined ? {} : { toolFolders: [...toolFolders] }),
  };
}

export function reportOf(flags: ThingFlags, { terminal }: CommandContext): Report {
  return new Report(terminal, { json: flags.json === true });
}

/** What such a command works with. */
export type ThingContext = CommandContext & Stores;
