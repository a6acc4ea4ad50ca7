/** Flags about sessions and namespaces (where the code runs, packages, executor), and the options that they become. */

import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { executorKinds, isReservedKey, normalizeAgentKey } from '../protocol/enums.ts';
import { formatAllowedHost, parseAllowedHost } from '../protocol/network-hosts.ts';
import type { NetworkPolicy } from '../protocol/sandbox-policy.ts';
import type { ExecuteOptions, UserNamespacesApi } from '../session/api.ts';
import {
  type PackageFlags,
  type PackageOptions,
  resolvePackages,
  type UnknownVariable,
} from '../settings/process-config.ts';
import type { Variables } from '../settings/setting.ts';
import { settings } from '../settings/settings-table.ts';
import type { ExecutorChoice, ExecutorOptions, NamespaceTarget, OpenOptions } from './backend/backend.ts';
import { UsageError } from './command-errors.ts';
import { CommandOutput } from './command-output.ts';
import type { CommandContext, Done } from './define-command.ts';
import { addSetting, addSettings, parseMegabytes, parseText } from './options.ts';
import {
  addStorageFlags,
  addTargetFlags,
  resolveTarget,
  type TargetDefaults,
  type TargetFlags,
} from './target-options.ts';

export interface SessionFlags extends TargetFlags, PackageFlags, ExecutorFlags {
  readonly key?: string;
  readonly cwd?: string;
  readonly python?: string;
  readonly sandbox?: 'on' | 'off';
  readonly network?: NetworkPolicy;
  readonly memory?: number;
  readonly tools?: readonly string[];
  readonly syncDeps?: boolean;
  readonly runtimeDeps?: boolean;
}

/** Defaults for flags that are not given. */
export interface Defaults extends TargetDefaults, ExecutorDefaults {
  readonly packages?: PackageOptions | undefined;
  /** Values in place of flags: variables, and the config file for unset variables. */
  readonly variables?: Variables | undefined;
  readonly agentKey: string | undefined;
  readonly python: string | undefined;
  readonly toolFolders?: string[] | undefined;
  readonly unknownVariables?: readonly UnknownVariable[];
  /** The bearer token of an MCP server over HTTP. */
  readonly mcpToken?: string | undefined;
}

export function addAgentKeyFlags(command: Command): Command {
  return addTargetFlags(addSetting(command, settings.agentKey, { about: 'agent key that owns the kernel' }));
}

export function addSessionFlags(command: Command): Command {
  return addRuntimeFlags(addAgentKeyFlags(command));
}

const SESSION_GROUP = 'Session:';

/** Flags for where and how code runs. */
export function addRuntimeFlags(command: Command): Command {
  const option = (name: string, about: string, group = SESSION_GROUP) => new Option(name, about).helpGroup(group);
  const folder = 'working folder of the code (default: the workspace of the agent key)';
  const network = option('--network <none|host|allow:HOSTS>', 'no network, that of this machine, or these hosts');
  command
    .addOption(option('--cwd <dir>', folder).argParser(parseText))
    .addOption(option('--sandbox <on|off>', 'off runs trusted code without isolation').choices(['on', 'off']))
    .addOption(network.argParser(parseNetwork))
    .addOption(option('--memory <mb>', 'memory limit of the code, in megabytes').argParser(parseMegabytes));
  addSettings(command, [settings.python, settings.tools], { group: SESSION_GROUP })
    .addOption(option('--sync-deps', 'install the listed packages before the code runs', PACKAGE_GROUP))
    .addOption(option('--no-runtime-deps', 'the code may not add or remove packages', PACKAGE_GROUP));
  return addPackageFlags(addExecutorFlags(command));
}

export function resolveAgentKey(flags: Pick<SessionFlags, 'key'>, defaults: Defaults): string {
  return normalizeAgentKey(givenAgentKey(flags, defaults));
}

/** Undefined if neither flag nor variable is set. */
function givenAgentKey(flags: { readonly key?: string }, { agentKey }: Pick<Defaults, 'agentKey'>): string | undefined {
  const key = flags.key ?? agentKey;
  if (key === undefined || !isReservedKey(key)) return key;
  throw new UsageError(
    `The agent key ${JSON.stringify(key)} begins with ~, which is reserved for a server's users.`,
    `Choose another with ${flags.key === undefined ? 'CELLA_AGENT_KEY' : '--key'}.`,
  );
}

export function sessionOptions(flags: SessionFlags, defaults: Defaults): OpenOptions {
  const target = namespacesOptions(flags, defaults);
  return {
    ...target,
    cwd: flags.cwd === undefined ? undefined : resolve(flags.cwd),
    limits: flags.memory === undefined ? undefined : { memoryMb: flags.memory },
    syncDepsOnStart: flags.syncDeps,
    allowRuntimeDeps: flags.runtimeDeps === false ? false : undefined,
    sandbox: toSandboxOption(flags, target),
  };
}

function toSandboxOption(
  { sandbox = 'on', network, memory }: SessionFlags,
  { executor }: ExecutorOptions,
): OpenOptions['sandbox'] {
  if (executor === 'in-process' && network !== undefined) {
    throw new UsageError(
      'The executor in-process has no sandbox, so it has no separate network.',
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
      'Without the sandbox, nothing blocks the network.',
      `Leave out --network${network === 'none' ? ' none' : ''}, or leave out --sandbox off.`,
    );
  }
  return 'off';
}

/** `none`, `host`, or `allow:` with names of hosts between commas. */
export function parseNetwork(text: string): NetworkPolicy {
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
  throw new InvalidArgumentError('Only one program can run, but there is another -c.');
}

/** What happens to a program's changes. `explicit` is left out, because the command ends before anyone could decide. */
export type RunTransaction = Exclude<NonNullable<ExecuteOptions['transaction']>, 'explicit'>;

const transactions: readonly RunTransaction[] = [
  'commit_always',
  'commit_on_success',
  'rollback_on_failure',
  'rollback_always',
];

export function parseTransaction(text: string): RunTransaction {
  const policy = transactions.find((each) => each === text);
  if (policy) return policy;
  const choices = `Allowed choices are ${transactions.join(', ')}.`;
  if (text !== 'explicit') throw new InvalidArgumentError(choices);
  throw new InvalidArgumentError(`It waits for a commit or a rollback, but this command ends before that. ${choices}`);
}

export interface NamespaceFlags extends TargetFlags, PackageFlags, ExecutorFlags {
  readonly key?: string;
  readonly python?: string;
  readonly tools?: readonly string[];
  readonly json?: boolean;
}

export function addNamespaceFlags(command: Command): Command {
  return addLocalNamespaceFlags(addTargetFlags(command.option('--json', 'print one JSON object')));
}

/** For commands that work on storages without a server. */
export function addStorageNamespaceFlags(command: Command): Command {
  return addLocalNamespaceFlags(addStorageFlags(command.option('--json', 'print one JSON object')));
}

function addLocalNamespaceFlags(command: Command): Command {
  const key = new Option('--key <key>', 'ignored: all agent keys of a storage share these').hideHelp();
  return addSetting(command.addOption(key), settings.python, { about: 'Python of the kernels' });
}

export function addToolsFlag(command: Command): Command {
  return addSetting(command, settings.tools);
}

export function addNamespacePackageFlags(command: Command): Command {
  return addExecutorFlags(addPackageFlags(addNamespaceFlags(command)));
}

function namespacesOptions(flags: NamespaceFlags, defaults: Defaults): NamespaceTarget {
  const executor = toExecutorOptions(flags, defaults);
  const python = flags.python ?? (bringsPython(executor) ? undefined : defaults.python);
  const packages = resolvePackages(flags, defaults);
  const toolFolders = flags.tools ?? defaults.toolFolders;
  const agentKey = givenAgentKey(flags, defaults);
  return {
    ...resolveTarget(flags, defaults),
    agentKey,
    typed: explicitFlags(flags),
    ...executor,
    python,
    packages,
    toolFolders: toolFolders && [...toolFolders],
  };
}

type NamespaceWork = (namespaces: UserNamespacesApi, output: CommandOutput) => Promise<number>;

/** Runs a command on the namespaces that its flags select. */
export function namespaceRunner(
  context: CommandContext,
  done: Done,
): (flags: NamespaceFlags, work: NamespaceWork) => Promise<void> {
  return async (flags, work) => {
    await using namespaces = await context.backend.openNamespaces(namespacesOptions(flags, context.defaults));
    done(await work(namespaces, new CommandOutput(context.terminal, flags)));
  };
}

interface ExecutorFlags {
  readonly executor?: ExecutorChoice;
  readonly image?: string;
  readonly engine?: string;
}

/** Defaults for flags that are not given. */
interface ExecutorDefaults {
  /** Any text, because it comes from a variable. */
  readonly executor?: string | undefined;
  readonly image?: string | undefined;
  readonly engine?: string | undefined;
}

const EXECUTOR_GROUP = 'Executor:';
const EXECUTOR_CHOICES: readonly ExecutorChoice[] = ['auto', ...executorKinds];

function addExecutorFlags(command: Command): Command {
  return addSettings(command, [settings.executor, settings.image, settings.engine], { group: EXECUTOR_GROUP });
}

/** Flags override variables. Container variables are ignored for other executors; container flags are an error there. */
export function toExecutorOptions(flags: ExecutorFlags, defaults: ExecutorDefaults): ExecutorOptions {
  const executor = flags.executor ?? executorNamed(defaults.executor);
  if (executor !== 'container') {
    const unused = flags.image !== undefined ? '--image' : flags.engine !== undefined ? '--engine' : undefined;
    if (unused === undefined) return executor === undefined ? {} : { executor };
    throw new UsageError(
      `${unused} cannot be used with the executor ${executor ?? 'auto'}.`,
      'Leave it out, or add --executor container.',
    );
  }
  const image = flags.image ?? defaults.image;
  const engine = flags.engine ?? defaults.engine;
  return { executor, image, engine };
}

/** Whether the executor has its own Python, so that the variable for this machine's Python is ignored. */
function bringsPython({ executor }: ExecutorOptions): boolean {
  return executor === 'container' || executor === 'in-process';
}

function executorNamed(name: string | undefined): ExecutorChoice | undefined {
  const found = EXECUTOR_CHOICES.find((each) => each === name);
  if (found !== undefined || name === undefined) return found;
  throw new UsageError(
    `CELLA_EXECUTOR is ${JSON.stringify(name)}, which is not an executor.`,
    `Set it to one of ${EXECUTOR_CHOICES.join(', ')}, or choose with --executor.`,
  );
}

const PACKAGE_GROUP = 'Packages:';

export function addPackageFlags(command: Command): Command {
  const { index, extraIndex, wheels, noIndex } = settings;
  return addSettings(command, [index, extraIndex, wheels, noIndex], { group: PACKAGE_GROUP });
}

const FLAG_NAMES = {
  cwd: '--cwd',
  python: '--python',
  tools: '--tools',
  executor: '--executor',
  image: '--image',
  engine: '--engine',
  sandbox: '--sandbox',
  network: '--network',
  memory: '--memory',
  extraIndex: '--extra-index',
  wheels: '--wheels',
} as const satisfies Partial<Record<keyof SessionFlags, string>>;

type FlagKey = keyof typeof FLAG_NAMES;
export type ExplicitFlag = (typeof FLAG_NAMES)[FlagKey] | '--index' | '--no-index' | '--no-runtime-deps';

export function explicitFlags(flags: Pick<SessionFlags, FlagKey | 'index' | 'runtimeDeps'>): readonly ExplicitFlag[] {
  const keys = Object.keys(FLAG_NAMES).filter((key): key is FlagKey => key in FLAG_NAMES);
  return [
    ...keys.filter((key) => flags[key] !== undefined).map((key) => FLAG_NAMES[key]),
    ...(typeof flags.index === 'string' ? (['--index'] as const) : []),
    ...(flags.index === false ? (['--no-index'] as const) : []),
    ...(flags.runtimeDeps === false ? (['--no-runtime-deps'] as const) : []),
  ];
}
