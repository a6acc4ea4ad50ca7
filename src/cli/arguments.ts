/** From the words of a command line to the options of a session. */

import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { isReservedKey } from '../protocol/enums.ts';
import { formatAllowedHost, parseAllowedHost } from '../protocol/network-hosts.ts';
import type { ExecuteOptions } from '../session/api.ts';
import { settings } from '../settings/settings-table.ts';
import type { UnknownVariable } from '../settings/unknown-variables.ts';
import { seconds } from '../settings/value-types.ts';
import type { ExecutorOptions, NetworkChoice, OpenOptions } from './context.ts';
import {
  addExecutorFlags,
  bringsPython,
  type ExecutorDefaults,
  type ExecutorFlags,
  executorOptionsOf,
} from './executor-flags.ts';
import { UsageError } from './exit.ts';
import { addPackageFlags, type PackageDefaults, type PackageFlags, packageOptionsOf } from './package-flags.ts';
import { parseText } from './parse-text.ts';
import { addSetting, type SetVariables } from './setting-flags.ts';
import { typedFlags } from './typed-flags.ts';
import { addWhereFlags, type WhereDefaults, type WhereFlags, whereOf } from './where-flags.ts';

export interface SessionFlags extends WhereFlags, PackageFlags, ExecutorFlags {
  readonly agent?: string;
  readonly cwd?: string;
  readonly python?: string;
  readonly sandbox?: 'on' | 'off';
  readonly network?: NetworkChoice;
  readonly memory?: number;
  readonly tools?: readonly string[];
  readonly syncDeps?: boolean;
  readonly runtimeDeps?: boolean;
}

/** What stands in for a flag that is not given. */
export interface Defaults extends WhereDefaults, PackageDefaults, ExecutorDefaults, SetVariables {
  readonly agentKey: string | undefined;
  readonly python: string | undefined;
  readonly toolFolders?: readonly string[] | undefined;
  /** Whether a chat runs shell commands without asking. */
  readonly autoSh: boolean;
  readonly strayVariables?: readonly UnknownVariable[];
}

export function addAgentFlags(command: Command): Command {
  return addWhereFlags(addSetting(command, settings.agentKey));
}

export function addSessionFlags(command: Command): Command {
  return addPlaceFlags(addAgentFlags(command));
}

/** Where and how the code works. */
export function addPlaceFlags(command: Command): Command {
  const packages = (name: string, about: string) => new Option(name, about).helpGroup('Packages:');
  command.option('--cwd <dir>', "the folder the code works in (default: the agent's own workspace)", parseText);
  addSetting(command, settings.python)
    .addOption(
      new Option('--sandbox <on|off>', 'off runs trusted code with no isolation at all').choices(['on', 'off']),
    )
    .addOption(
      new Option('--network <none|host|allow:HOSTS>', 'no network, that of this machine, or some hosts').argParser(
        parseNetwork,
      ),
    )
    .option('--memory <mb>', 'how much memory the code may use, in megabytes', parseMegabytes);
  addSetting(command, settings.tools)
    .addOption(packages('--sync-deps', 'install the configured packages before the code runs'))
    .addOption(packages('--no-runtime-deps', 'the code may not add or remove packages'));
  return addPackageFlags(addExecutorFlags(command));
}

/** As a session takes it: a key of nothing but spaces is none. */
export function agentKeyOf(flags: Pick<SessionFlags, 'agent'>, defaults: Defaults): string {
  const key = givenKey(flags, defaults) ?? '';
  return key.trim() === '' ? 'default' : key;
}

/** Undefined where nobody says anything. */
export function givenKey(
  flags: { readonly agent?: string },
  { agentKey }: Pick<Defaults, 'agentKey'>,
): string | undefined {
  const key = flags.agent ?? agentKey;
  if (key === undefined || !isReservedKey(key)) return key;
  throw new UsageError(
    `The agent key ${JSON.stringify(key)} begins with ~, which the keys of a server's users do.`,
    `Choose another with ${flags.agent === undefined ? 'CELLA_AGENT_KEY' : '--agent'}.`,
  );
}

export function sessionOptions(flags: SessionFlags, defaults: Defaults): OpenOptions {
  const agentKey = givenKey(flags, defaults);
  const executor = executorOptionsOf(flags, defaults);
  const python = flags.python ?? (bringsPython(executor) ? undefined : defaults.python);
  const packages = packageOptionsOf(flags, defaults);
  const toolFolders = flags.tools ?? defaults.toolFolders;
  const typed = typedFlags(flags);
  return {
    ...(agentKey === undefined ? {} : { agentKey }),
    ...(python === undefined ? {} : { python }),
    ...(flags.cwd === undefined ? {} : { cwd: resolve(flags.cwd) }),
    ...(flags.memory === undefined ? {} : { limits: { memoryMb: flags.memory } }),
    ...(packages === undefined ? {} : { packages }),
    ...(toolFolders === undefined ? {} : { toolFolders: [...toolFolders] }),
    ...(flags.syncDeps ? { syncDepsOnStart: true } : {}),
    ...(flags.runtimeDeps === false ? { allowRuntimeDeps: false } : {}),
    ...(typed.length === 0 ? {} : { typed }),
    ...whereOf(flags, defaults),
    ...executor,
    sandbox: sandboxOption(flags, executor),
  };
}

function sandboxOption(
  { sandbox = 'on', network, memory }: SessionFlags,
  { executor }: ExecutorOptions,
): OpenOptions['sandbox'] {
  if (executor === 'in-process' && network !== undefined) {
    throw new UsageError(
      'The executor in-process has no sandbox, and with it no network of its own.',
      'Leave out --network, or choose another executor.',
    );
  }
  if (sandbox === 'on') return network === undefined ? 'on' : { network };
  if (memory !== undefined) {
    throw new UsageError(
      'Without the sandbox, nothing limits the memory of the code.',
      'Leave out --memory, or leave out --sandbox off.',
    );
  }
  if (network !== undefined && network !== 'host') {
    throw new UsageError(
      'Without the sandbox, nothing keeps the code from the network.',
      `Leave out --network${network === 'none' ? ' none' : ''}, or leave out --sandbox off.`,
    );
  }
  return 'off';
}

/** `none`, `host`, or `allow:` with names of hosts between commas. */
export function parseNetwork(text: string): NetworkChoice {
  if (text === 'none' || text === 'host') return text;
  const hosts = /^allow:(.*)$/s.exec(text)?.[1]?.split(',');
  if (!hosts)
    throw new InvalidArgumentError(
      'Allowed choices are none, host, and allow: with hosts, such as allow:pypi.org,*.example.org.',
    );
  const allow = hosts.map((text) => {
    const host = parseAllowedHost(text);
    if (host) return formatAllowedHost(host);
    const examples = 'example.org, *.example.org, example.org:8443 or 10.0.0.5:5432';
    throw new InvalidArgumentError(`${JSON.stringify(text)} is not a host such as ${examples}.`);
  });
  return { allow };
}

export function parseProgram(code: string, before: string | undefined): string {
  if (before === undefined) return code;
  throw new InvalidArgumentError('Only one program can run, and there is a -c before this one.');
}

/** What becomes of the changes of a program. One that waits to be decided has nobody at a command line who could. */
export type Transaction = Exclude<NonNullable<ExecuteOptions['transaction']>, 'explicit'>;

const transactions: readonly Transaction[] = [
  'commit_always',
  'commit_on_success',
  'rollback_on_failure',
  'rollback_always',
];

export function parseTransaction(text: string): Transaction {
  const policy = transactions.find((each) => each === text);
  if (policy) return policy;
  const choices = `Allowed choices are ${transactions.join(', ')}.`;
  if (text !== 'explicit') throw new InvalidArgumentError(choices);
  throw new InvalidArgumentError(
    `It waits for somebody to commit or roll back, and this command has ended by then. ${choices}`,
  );
}

/** Seconds as people write them, to whole milliseconds. */
export function parseSeconds(text: string): number {
  try {
    return seconds.parse(text);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

export function parseMegabytes(text: string): number {
  const megabytes = /^\d+$/.test(text) ? Number(text) : 0;
  if (megabytes >= 32 && megabytes <= 1_048_576) return megabytes;
  throw new InvalidArgumentError('It must be a whole number of megabytes, from 32 to 1048576, such as 512.');
}
