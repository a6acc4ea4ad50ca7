/** Cella's command line: lists the commands, dispatches to them, and turns failures into exit codes. */

import { Command, CommanderError, Help } from 'commander';
import { reportFailure, UsageError } from './command-errors.ts';
import {
  type CommandContext,
  type DefineCommand,
  type Done,
  defineCommand,
  describeUnknownCommand,
  seeCommands,
  throwUsageError,
} from './define-command.ts';
import { Exit } from './exit-codes.ts';

type AddCommand = (define: DefineCommand, context: CommandContext, done: Done) => void;

interface CommandEntry {
  readonly name: string;
  /** What follows the name in the list of commands. */
  readonly usage?: string;
  readonly summary: string;
  /** Loads the command's module only if one of the words is its name. */
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
    summary: 'manage data that code has saved',
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

/** The width of the texts below the options. */
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
  folder, or the one that --config or CELLA_CONFIG names. In the file, write --max-kernels 8
  as \`max-kernels: 8\`. The help of each flag names its variable. These variables have no flag, and cannot
  be in the file:
    CELLA_TOKEN              token for the server at CELLA_URL
    CELLA_MCP_TOKEN          bearer token of \`cella mcp --http\`
    CELLA_MASTER_KEY         key that a server encrypts credentials with; see docs/gateway.md
    CELLA_CREDENTIAL_NAME    the secret NAME, for tools that mention it
    NO_COLOR                 turns colours off if it is not empty
  docs/settings.md lists all of them.

Run \`cella <command> --help\` for the options, examples and exit codes of a command.`;

/** Runs one command line and returns its exit code. */
export async function runCommandLine(words: readonly string[], context: CommandContext): Promise<number> {
  let exitCode: number = Exit.ok;
  // Before the command is parsed, this word alone shows that a program reads the output.
  let json = words.includes('--json');
  const done = (code: number) => {
    exitCode = code;
  };
  let { defaults } = context;
  const current: CommandContext = {
    ...context,
    words,
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

async function buildProgram(context: CommandContext, done: Done): Promise<Command> {
  const program = new Command('cella')
    .description('A persistent, sandboxed Python kernel for every AI agent.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    // `--version` after a command belongs to that command.
    .enablePositionalOptions()
    .exitOverride((error) => {
      const misplaced = error.code === 'commander.unknownOption';
      throwUsageError(error, program, misplaced ? `Options follow the command. ${seeCommands}` : seeCommands);
    })
    .configureHelp({ subcommandTerm: describeCommand })
    .addHelpText('after', HELP);
  // Commands copy these settings when they are added. `runCommandLine` prints errors.
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
