/** The flags that the commands on tools, skills, artifacts and deps share. */

import { type Command, Option } from 'commander';
import { settings } from '../settings/settings-table.ts';
import { type Defaults, givenKey } from './arguments.ts';
import type { CommandContext, NamespacesOptions, Stores } from './context.ts';
import { addExecutorFlags, bringsPython, type ExecutorFlags, executorOptionsOf } from './executor-flags.ts';
import { addPackageFlags, type PackageFlags, packageOptionsOf } from './package-flags.ts';
import { Report } from './report.ts';
import { addSetting } from './setting-flags.ts';
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
  const agent = new Option('--agent <key>', 'all agents of a storage share these; taken and not needed').hideHelp();
  return addSetting(command.addOption(agent), settings.python, { about: 'the Python of the kernels' });
}

export function addToolsFlag(command: Command): Command {
  return addSetting(command, settings.tools);
}

export function addThingPackageFlags(command: Command): Command {
  return addExecutorFlags(addPackageFlags(addThingFlags(command)));
}

export function namespacesOptions(flags: ThingFlags, defaults: Defaults): NamespacesOptions {
  const executor = executorOptionsOf(flags, defaults);
  const python = flags.python ?? (bringsPython(executor) ? undefined : defaults.python);
  const packages = packageOptionsOf(flags, defaults);
  const toolFolders = flags.tools ?? defaults.toolFolders;
  const agentKey = givenKey(flags, defaults);
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
