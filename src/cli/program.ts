/** The command line of Cella: which commands there are, how words reach them, and how a failure becomes an exit code. */

import { Command, CommanderError, Help } from 'commander';
import { Exit, reportFailure, UsageError } from './command-errors.ts';
import type {
  AgentProgramCommands,
  CommandContext,
  ImageCommands,
  MachineCommands,
  OpenOptions,
  ServerCommands,
  StorageAccess,
} from './context.ts';
import { type DefineCommand, type Done, defineCommand, seeCommands, throwUsageError } from './define-command.ts';
import type { Defaults } from './session-flags.ts';

export interface ProgramContext
  extends CommandContext,
    StorageAccess,
    MachineCommands,
    ServerCommands,
    ImageCommands,
    AgentProgramCommands {
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
    summary: 'run a Python program and show its output and last value',
    load: async () => (await import('./commands/run.ts')).addRun,
  },
  {
    name: 'repl',
    usage: '[options]',
    summary: 'work in a kernel line by line',
    load: async () => (await import('./commands/repl.ts')).addRepl,
  },
  {
    name: 'chat',
    usage: '[options]',
    summary: 'work with an agent: Python, shell, undo, checkpoints',
    load: async () => (await import('./commands/chat.ts')).addChat,
  },
  {
    name: 'agent',
    summary: 'prompt a coding agent in a session of a server',
    load: async () => (await import('./commands/prompt.ts')).addAgent,
  },
  {
    name: 'permissions',
    summary: 'what agents and tools wait for leave to do',
    load: async () => (await import('./commands/permissions.ts')).addPermissions,
  },
  {
    name: 'profiles',
    summary: 'what you set up for coding agents',
    load: async () => (await import('./commands/profiles.ts')).addProfiles,
  },
  {
    name: 'checkpoints',
    summary: 'points that an agent can go back to',
    load: async () => (await import('./commands/checkpoints.ts')).addCheckpoints,
  },
  {
    name: 'fork',
    usage: '[options] <key>',
    summary: 'make another agent with the same names',
    load: async () => (await import('./commands/fork.ts')).addFork,
  },
  {
    name: 'ps',
    usage: '[options]',
    summary: 'list all agents: live ones, and those that sleep',
    load: async () => (await import('./commands/ps.ts')).addPs,
  },
  {
    name: 'deps',
    summary: 'the Python packages that kernels have',
    load: async () => (await import('./commands/deps.ts')).addDeps,
  },
  {
    name: 'skills',
    summary: 'Python that agents keep for later',
    load: async () => (await import('./commands/skills.ts')).addSkills,
  },
  {
    name: 'tools',
    summary: 'programs, MCP servers and HTTP requests that code can call',
    load: async () => (await import('./commands/tools.ts')).addTools,
  },
  {
    name: 'artifacts',
    summary: 'what agents have made and keep',
    load: async () => (await import('./commands/artifacts.ts')).addArtifacts,
  },
  {
    name: 'store',
    summary: 'what a storage holds, and copies from one to another',
    load: async () => (await import('./commands/storage.ts')).addStore,
  },
  {
    name: 'serve',
    summary: 'serve kernels to a team: REST, WebSocket, users and rights',
    load: async () => (await import('./commands/serve.ts')).addServe,
  },
  {
    name: 'sessions',
    summary: 'the sessions of a server',
    load: async () => (await import('./commands/sessions.ts')).addSessions,
  },
  {
    name: 'users',
    summary: 'the users of a server, their roles and quotas',
    load: async () => (await import('./commands/users.ts')).addUsers,
  },
  {
    name: 'tokens',
    summary: 'the tokens that let programs into a server',
    load: async () => (await import('./commands/tokens.ts')).addTokens,
  },
  {
    name: 'credentials',
    summary: 'the keys of model providers, for agents',
    load: async () => (await import('./commands/credentials.ts')).addCredentials,
  },
  {
    name: 'mcp',
    usage: '[options]',
    summary: 'serve kernels to an MCP client: Claude, an IDE, an agent',
    load: async () => (await import('./commands/mcp.ts')).addMcp,
  },
  {
    name: 'image',
    summary: 'the images that kernels in containers run in',
    load: async () => (await import('./commands/images.ts')).addImage,
  },
  {
    name: 'agents',
    summary: 'the coding agents that are installed here: Claude',
    load: async () => (await import('./commands/agents.ts')).addAgents,
  },
  {
    name: 'doctor',
    usage: '[options]',
    summary: 'tell whether this machine can isolate code, and what is missing',
    load: async () => (await import('./commands/doctor.ts')).addDoctor,
  },
  {
    name: 'bench',
    usage: '[options]',
    summary: 'measure starts, executions and memory on this machine',
    load: async () => (await import('./commands/bench.ts')).addBench,
  },
];

const HELP = `
Examples:
  $ cella run -c '6 * 7'              run code, see its value
  $ cella run analysis.py             run a file
  $ cella repl                        try things out line by line
  $ cella chat                        Python, shell, undo and checkpoints in one place
  $ cella agent 'Fix the tests'       prompt a coding agent at a server
  $ cella permissions list            what agents wait for your leave to do
  $ cella profiles list               what you have set up for coding agents
  $ cella checkpoints create before   keep the names of an agent as they are
  $ cella fork other                  make another agent with the same names
  $ cella ps                          see all agents
  $ cella deps add pandas             give the code a package
  $ cella skills list                 Python that agents keep for later
  $ cella tools call grep TODO a.txt  what code can call, called by hand
  $ cella artifacts get report.md     what agents have made
  $ cella store push redis://HOST     copy all of these to another storage
  $ cella serve                       serve kernels to a team: REST, WebSocket, users and rights
  $ cella sessions list               see what lives at a server
  $ cella users add ada               let others use it; \`cella tokens\` for programs
  $ cella credentials set anthropic   give agents a key that they never hold
  $ cella mcp                         serve a kernel to Claude, an IDE or an agent, over MCP
  $ cella image build                 make the image that kernels in containers run in
  $ cella agents install claude       bring a coding agent that works in a session
  $ cella doctor                      see what this machine can isolate

Settings:
  A flag wins over a variable, and that over the config file: config.yaml in the data folder, or the
  one that --config or CELLA_CONFIG names. There, \`--max-kernels 8\` is \`max-kernels: 8\`.
  CELLA_DATA_DIR, CELLA_PYTHON, CELLA_EXECUTOR, CELLA_STORAGE, CELLA_REDIS and the like stand for the
  flags of that name. These have none, and stand in no file:
    CELLA_TOKEN              the token for the server at CELLA_URL
    CELLA_MCP_TOKEN          the bearer token of \`cella mcp --http\`
    CELLA_MASTER_KEY         what a server encrypts credentials with; see docs/gateway.md
    CELLA_CREDENTIAL_NAME    the secret of that name, for tools that mention it
    NO_COLOR                 any text turns colours off
  docs/settings.md has all of them in one table.

Run \`cella <command> --help\` for a command's options, examples and exit codes.`;

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
    .description('A place of its own for every AI agent: a persistent, sandboxed Python kernel.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    // `--version` after a command is that command's own.
    .enablePositionalOptions()
    .exitOverride((error) => throwUsageError(error, seeCommands))
    .configureHelp({ subcommandTerm: describeCommand })
    .addHelpText('after', HELP);
  // Commands copy these settings when they are added. `runProgram` prints errors.
  program.configureOutput({
    writeOut: (text) => void context.terminal.out(text).catch(() => {}),
    writeErr: () => {},
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
      for (const [index, name] of names.entries()) {
        const found = command.commands.find((each) => each.name() === name);
        if (!found) throw new UsageError(`unknown command '${names.slice(0, index + 1).join(' ')}'`, seeCommands);
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
