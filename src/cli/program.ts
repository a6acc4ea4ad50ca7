/** The command line of Cella: which commands there are, how words reach them, and how a failure becomes an exit code. */

import { Command, CommanderError, Help } from 'commander';
import { Exit, reportFailure, UsageError } from './command-errors.ts';
import type { CommandContext, MachineCommands, OpenOptions, ServerCommands, StorageAccess } from './context.ts';
import {
  type DefineCommand,
  type Done,
  defineCommand,
  describeUnknownCommand,
  seeCommands,
  throwUsageError,
} from './define-command.ts';
import type { Defaults } from './session-flags.ts';

export interface ProgramContext extends CommandContext, StorageAccess, MachineCommands, ServerCommands {
  readonly version: string;
  readonly defaults: Defaults;
  /** The defaults with the config file that these flags choose. */
  configured?(flags: { readonly data?: string; readonly config?: string }): Promise<Defaults>;
  /** How to start this program again: the program with its first arguments, and the words that followed. */
  readonly ownCommand?: readonly string[];
  readonly words?: readonly string[];
}

type AddCommand = (define: DefineCommand, context: ProgramContext, done: Done) => void;

interface CommandEntry {
  readonly name: string;
  /** What follows the name in the list of commands. */
  readonly usage?: string;
  readonly summary: string;
  /** The module of a command loads only if one of the words is its name. */
  readonly load: () => Promise<AddCommand>;
}

/** In the order of `cella --help`. */
const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'run',
    usage: '[options] [file]',
    summary: 'run a Python program, and print its output and last value',
    load: async () => (await import('./commands/run.ts')).addRun,
  },
  {
    name: 'repl',
    usage: '[options]',
    summary: 'open a Python prompt in a kernel',
    load: async () => (await import('./commands/repl.ts')).addRepl,
  },
  {
    name: 'chat',
    usage: '[options]',
    summary: 'Python, shell, undo, checkpoints and coding agents in one place',
    load: async () => (await import('./commands/chat.ts')).addChat,
  },
  {
    name: 'prompt',
    usage: '[options] <text>',
    summary: 'send a prompt to a coding agent at a server',
    load: async () => (await import('./commands/prompt.ts')).addPrompt,
  },
  {
    name: 'permissions',
    summary: 'decide pending permission requests of agents and tools',
    load: async () => (await import('./commands/permissions.ts')).addPermissions,
  },
  {
    name: 'profiles',
    summary: 'manage named set-ups for coding agents',
    load: async () => (await import('./commands/profiles.ts')).addProfiles,
  },
  {
    name: 'checkpoints',
    summary: 'save variables, and go back to them',
    load: async () => (await import('./commands/checkpoints.ts')).addCheckpoints,
  },
  {
    name: 'fork',
    usage: '[options] <key>',
    summary: 'copy a kernel to another agent key',
    load: async () => (await import('./commands/fork.ts')).addFork,
  },
  {
    name: 'ps',
    usage: '[options]',
    summary: 'list kernels, live and hibernated',
    load: async () => (await import('./commands/ps.ts')).addPs,
  },
  {
    name: 'deps',
    summary: 'manage the Python packages of kernels',
    load: async () => (await import('./commands/deps.ts')).addDeps,
  },
  {
    name: 'skills',
    summary: 'manage Python functions that code can call',
    load: async () => (await import('./commands/skills.ts')).addSkills,
  },
  {
    name: 'tools',
    summary: 'manage programs, MCP servers and HTTP requests that code can call',
    load: async () => (await import('./commands/tools.ts')).addTools,
  },
  {
    name: 'artifacts',
    summary: 'manage results that code has saved',
    load: async () => (await import('./commands/artifacts.ts')).addArtifacts,
  },
  {
    name: 'storage',
    summary: 'list the content of a storage, and copy it to another',
    load: async () => (await import('./commands/storage.ts')).addStorage,
  },
  {
    name: 'serve',
    summary: 'start a server for a team: REST, WebSocket, users and permissions',
    load: async () => (await import('./commands/serve.ts')).addServe,
  },
  {
    name: 'sessions',
    summary: 'manage the sessions of a server',
    load: async () => (await import('./commands/sessions.ts')).addSessions,
  },
  {
    name: 'users',
    summary: 'manage the users of a server, their roles and quotas',
    load: async () => (await import('./commands/users.ts')).addUsers,
  },
  {
    name: 'tokens',
    summary: 'manage the tokens that programs use at a server',
    load: async () => (await import('./commands/tokens.ts')).addTokens,
  },
  {
    name: 'credentials',
    summary: 'manage keys of model providers, for agents',
    load: async () => (await import('./commands/credentials.ts')).addCredentials,
  },
  {
    name: 'mcp',
    usage: '[options]',
    summary: 'serve kernels to an MCP client: Claude, an IDE, an agent',
    load: async () => (await import('./commands/mcp.ts')).addMcp,
  },
  {
    name: 'images',
    summary: 'manage the images that kernels in containers run in',
    load: async () => (await import('./commands/images.ts')).addImages,
  },
  {
    name: 'agents',
    summary: 'install coding agents, such as Claude',
    load: async () => (await import('./commands/agents.ts')).addAgents,
  },
  {
    name: 'doctor',
    usage: '[options]',
    summary: 'check whether this machine can isolate code',
    load: async () => (await import('./commands/doctor.ts')).addDoctor,
  },
  {
    name: 'bench',
    usage: '[options]',
    summary: 'measure start-up, executions and memory on this machine',
    load: async () => (await import('./commands/bench.ts')).addBench,
  },
];

/** That of the texts below the options. */
const HELP_WIDTH = 105;

const HELP = `
Examples:
  $ cella run -c '6 * 7'              run code, print its value
  $ cella run analysis.py             run a file
  $ cella repl                        a Python prompt
  $ cella chat                        Python, shell, undo and checkpoints in one place
  $ cella deps add pandas             install a package for all kernels
  $ cella checkpoints create before   save the variables
  $ cella serve --detach              start a server in the background
  $ cella prompt 'Fix the tests'      send a prompt to a coding agent at the server
  $ cella users create ada            let somebody else use the server
  $ cella mcp                         serve a kernel to Claude, an IDE or an agent, over MCP
  $ cella doctor                      check what this machine can isolate

Settings:
  A flag wins over an environment variable, a variable over the config file: config.yaml in the data
  folder, or the one that --config or CELLA_CONFIG names. There, --max-kernels 8 is \`max-kernels: 8\`.
  The help of each flag names its variable. These variables have no flag, and cannot be in the file:
    CELLA_TOKEN              token for the server at CELLA_URL
    CELLA_MCP_TOKEN          bearer token of \`cella mcp --http\`
    CELLA_MASTER_KEY         key that a server encrypts credentials with; see docs/gateway.md
    CELLA_CREDENTIAL_NAME    the secret NAME, for tools that mention it
    NO_COLOR                 any text turns colours off
  docs/settings.md lists all of them.

Run \`cella <command> --help\` for the options, examples and exit codes of a command.`;

/** Runs one command line and returns its exit code. */
export async function runProgram(words: readonly string[], context: ProgramContext): Promise<number> {
  let exitCode: number = Exit.ok;
  // Until the command is parsed, the word itself says that a program reads the output.
  let json = words.includes('--json');
  const done = (code: number) => {
    exitCode = code;
  };
  let { defaults } = context;
  const current: ProgramContext = {
    ...context,
    words,
    openSession: withStartupStatus(context),
    get defaults() {
      return defaults;
    },
  };
  try {
    const program = await buildProgram(current, done);
    program.hook('preAction', async (_program, command) => {
      const flags: { json?: boolean; data?: string; config?: string } = command.optsWithGlobals();
      json = flags.json === true;
      defaults = (await context.configured?.(flags)) ?? defaults;
    });
    await program.parseAsync(words.length === 0 ? ['--help'] : [...words], { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has printed the help or the version.
    if (error instanceof CommanderError) return Exit.ok;
    return await reportFailure(context.terminal, error, { json });
  }
}

async function buildProgram(context: ProgramContext, done: Done): Promise<Command> {
  const program = new Command('cella')
    .description('A persistent, sandboxed Python kernel for every AI agent.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    // `--version` after a command is that command's own.
    .enablePositionalOptions()
    .exitOverride((error) => throwUsageError(error, program, seeCommands))
    .configureHelp({ subcommandTerm: describeCommand })
    .addHelpText('after', HELP);
  // Commands copy these settings when they are added. `runProgram` prints errors.
  program.configureOutput({
    writeOut: (text) => void context.terminal.out(text).catch(() => {}),
    writeErr: () => {},
    getOutHelpWidth: () => Math.min(context.terminal.columns ?? HELP_WIDTH, HELP_WIDTH),
  });
  for (const { name, summary, load } of COMMANDS) {
    const define: DefineCommand = (help) => defineCommand(program, name, summary, help);
    // For the others, name and summary are enough.
    if (context.words?.includes(name) ?? true) (await load())(define, context, done);
    else define('');
  }
  addHelp(program);
  return program;
}

/** A command whose module is not loaded has no options and arguments yet. */
function describeCommand(command: Command): string {
  const usage = command.parent?.parent ? undefined : COMMANDS.find(({ name }) => name === command.name())?.usage;
  return usage === undefined ? new Help().subcommandTerm(command) : `${command.name()} ${usage}`;
}

function addHelp(program: Command): void {
  program
    .command('help [command...]')
    .description("show a command's help")
    .helpOption(false)
    .action((names: string[]) => {
      let command = program;
      for (const name of names) {
        const found = command.commands.find((each) => each.name() === name);
        if (!found) throw new UsageError(describeUnknownCommand(command, name), seeCommands);
        command = found;
      }
      command.outputHelp();
    });
}

/** From here on a person wonders whether anything happens at all. */
const STATUS_DELAY_MS = 700;

/** Opens sessions as the given context does. */
export function withStartupStatus({ openSession, terminal }: CommandContext): CommandContext['openSession'] {
  return async (options) => {
    const tell = () => {
      // A failed write fails again with the first output, and is reported there.
      if (terminal.stderrIsScreen) void terminal.status(describeStart(options)).catch(() => {});
    };
    const silence = setTimeout(tell, STATUS_DELAY_MS);
    const onProgress = (text: string) => {
      silence.refresh();
      options.onProgress?.(text);
    };
    try {
      return await openSession({ ...options, onProgress });
    } finally {
      clearTimeout(silence);
      terminal.clearStatus();
    }
  };
}

function describeStart({ executor }: Pick<OpenOptions, 'executor'>): string {
  if (executor === 'in-process') return 'Starting Python in WebAssembly; the first time takes a while';
  if (executor === 'container') return 'Starting a container; the first one of an image takes a while';
  return 'Starting a kernel';
}
