/** The command line of Cella: what can be typed, what each command is for, and where it goes. */

import { Command, CommanderError, Option } from 'commander';
import { settings } from '../settings/settings-table.ts';
import { addAgent } from './agent/commands.ts';
import { addArtifacts } from './artifacts/commands.ts';
import { Exit, reportFailure, UsageError } from './command-errors.ts';
import type {
  AgentProgramCommands,
  BenchFlags,
  CommandContext,
  ImageCommands,
  MachineCommands,
  ServerCommands,
  StorageAccess,
} from './context.ts';
import { addCredentials } from './credentials/commands.ts';
import { defineCommand, seeCommands, throwUsageError } from './define-command.ts';
import { addDeps } from './deps/commands.ts';
import * as help from './help.ts';
import { addImage } from './image/commands.ts';
import { addMcp } from './mcp.ts';
import { addSetting, parseText, resolveSetting } from './options.ts';
import { withStartupStatus } from './patience.ts';
import { addPermissions } from './permissions/commands.ts';
import { addProfiles } from './profiles/commands.ts';
import { addAgents } from './programs/commands.ts';
import { addServe } from './serve/commands.ts';
import {
  addRuntimeFlags,
  addSessionFlags,
  type Defaults,
  parseProgram,
  parseSeconds,
  parseTransaction,
  type RunTransaction,
  type SessionFlags,
  sessionOptions,
} from './session-options.ts';
import { addSessions } from './sessions/commands.ts';
import { addSkills } from './skills/commands.ts';
import { chooseSource } from './source.ts';
import { addCheckpoints, addFork, addPs } from './state-commands.ts';
import { addStore } from './store/commands.ts';
import {
  addStorageFlags,
  addTargetFlags,
  formatTargetFlags,
  resolveStorage,
  type StorageFlags,
} from './target-options.ts';
import { addTokens } from './tokens/commands.ts';
import { addTools } from './tools/commands.ts';
import { addUsers } from './users/commands.ts';

export interface ProgramContext
  extends CommandContext,
    StorageAccess,
    MachineCommands,
    ServerCommands,
    ImageCommands,
    AgentProgramCommands {
  readonly version: string;
  readonly defaults: Defaults;
  /** With what the config file says, which these flags choose. */
  configured?(flags: { readonly data?: string; readonly config?: string }): Promise<Defaults>;
  /** The program and the first words by which this one is started again, and those that came after them. */
  readonly ownCommand?: readonly string[];
  readonly words?: readonly string[];
}

/** Carries out one command line and gives its exit code. */
export async function runProgram(words: readonly string[], context: ProgramContext): Promise<number> {
  let exitCode: number = Exit.ok;
  // Until the command is known, the word itself is what tells that a program reads.
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
  const program = buildProgram(current, done);
  program.hook('preAction', async (_program, command) => {
    const flags: { json?: boolean; data?: string; config?: string } = command.optsWithGlobals();
    json = flags.json === true;
    defaults = (await context.configured?.(flags)) ?? defaults;
  });
  try {
    await program.parseAsync(words.length === 0 ? ['--help'] : [...words], { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has shown the help or the version that was asked for.
    if (error instanceof CommanderError) return Exit.ok;
    return await reportFailure(context.terminal, error, { json });
  }
}

function buildProgram(context: ProgramContext, done: (exitCode: number) => void): Command {
  const program = new Command('cella')
    .description('A place of its own for every AI agent: a persistent, sandboxed Python kernel.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    // `--version` after a command is that command's own.
    .enablePositionalOptions()
    .exitOverride((error) => throwUsageError(error, seeCommands))
    .addHelpText('after', help.program);
  // Commands copy these settings when they are added. What is wrong is told by whoever catches it.
  program.configureOutput({
    writeOut: (text) => void context.terminal.out(text).catch(() => {}),
    writeErr: () => {},
  });
  addRun(program, context, done);
  addRepl(program, context, done);
  addChat(program, context, done);
  addAgent(program, context, done);
  addPermissions(program, context, done);
  addProfiles(program, context, done);
  addCheckpoints(program, context, done);
  addFork(program, context, done);
  addPs(program, context, done);
  addDeps(program, context, done);
  addSkills(program, context, done);
  addTools(program, context, done);
  addArtifacts(program, context, done);
  addStore(program, context, done);
  addServe(program, context, done);
  addSessions(program, context, done);
  addUsers(program, context, done);
  addTokens(program, context, done);
  addCredentials(program, context, done);
  addMcp(program, context, done);
  addImage(program, context, done);
  addAgents(program, context, done);
  addDoctor(program, context, done);
  addBench(program, context, done);
  addHelp(program);
  return program;
}

function addRun(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  addSessionFlags(defineCommand(program, 'run', 'run a Python program and show its output and last value', help.run))
    .argument('[file]', 'the program, or - to read it from stdin')
    .option('-c <code>', 'the program itself', parseProgram)
    .option('--timeout <seconds>', 'stop the code after this long', parseSeconds)
    .option('--transaction <policy>', 'what becomes of the names that the code changes; see below', parseTransaction)
    .option('--json', 'print one event a line as JSON, the result last')
    .action(async (file: string | undefined, flags: RunFlags) => {
      const source = chooseSource(file, flags.c);
      const session = sessionOptions(flags, context.defaults);
      const { run } = await import('./run.ts');
      const { timeout: timeoutMs = 0, transaction, json = false } = flags;
      const request = { source, session, timeoutMs, json, ...(transaction === undefined ? {} : { transaction }) };
      done(await run(request, context));
    });
}

interface RunFlags extends SessionFlags {
  readonly c?: string;
  readonly timeout?: number;
  readonly transaction?: RunTransaction;
  readonly json?: boolean;
}

function addRepl(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  addSessionFlags(defineCommand(program, 'repl', 'work in a kernel line by line', help.repl)).action(
    async (flags: SessionFlags) => {
      const { repl } = await import('./repl.ts');
      done(await repl({ session: sessionOptions(flags, context.defaults), version: context.version }, context));
    },
  );
}

interface ChatFlags extends SessionFlags {
  readonly autoSh?: boolean;
  readonly autoPy?: boolean;
  readonly with?: string;
  readonly profile?: string;
  readonly json?: boolean;
}

function addChat(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  const whose = { about: 'whose kernel it is', otherwise: 'an agent of its own, dropped at the end' };
  const command = defineCommand(program, 'chat', 'work with an agent: Python, shell, undo, checkpoints', help.chat);
  addRuntimeFlags(addTargetFlags(addSetting(command, settings.agentKey, whose)));
  addSetting(command, settings.autoSh)
    .option('--auto-py', 'take lines that are no command as Python')
    .option('--with <agent>', 'take them as prompts for this coding agent, such as claude', parseText)
    .option('--profile <name>', 'a profile of yours for it; see `cella profiles`', parseText)
    .option('--json', 'print events and answers as JSON, one a line')
    .action(async (flags: ChatFlags) => {
      const { chat } = await import('./chat/chat.ts');
      const request = {
        session: sessionOptions(flags, context.defaults),
        placeFlags: formatTargetFlags(flags),
        version: context.version,
        autoSh: flags.autoSh ?? context.defaults.autoSh,
        autoPy: flags.autoPy === true,
        agent: flags.with,
        profile: flags.profile,
        json: flags.json === true,
      };
      done(await chat(request, context));
    });
}

function addDoctor(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  const summary = 'tell whether this machine can isolate code, and what is missing';
  const command = addStorageFlags(defineCommand(program, 'doctor', summary, help.doctor));
  addSetting(command, settings.python, { about: 'the Python to look at' });
  addSetting(command, settings.engine, { about: 'the container engine to look at' });
  addSetting(command, settings.image, { about: 'the image to look at' })
    .option('--json', 'print the report as JSON')
    .action(async (flags: StorageFlags & { python?: string; engine?: string; image?: string; json?: true }) => {
      const [{ doctor }, { startWarnings }, { serveSettings }] = await Promise.all([
        import('./doctor.ts'),
        import('./serve/greeting.ts'),
        import('../settings/settings-table.ts'),
      ]);
      const python = flags.python ?? context.defaults.python;
      const { stdout, noColor } = context.terminal;
      const place = resolveStorage(flags, context.defaults);
      const engine = flags.engine ?? context.defaults.engine;
      const image = flags.image ?? context.defaults.image;
      done(
        await doctor(
          {
            ...(await context.detect({ python, place, engine, image })),
            strayVariables: context.defaults.strayVariables,
            warnings: startWarnings(resolveSetting(serveSettings.membersMay, undefined, context.defaults)),
          },
          { json: flags.json === true, noColor },
          stdout,
        ),
      );
    });
}

function addBench(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  defineCommand(program, 'bench', 'measure starts, executions and memory on this machine', help.bench)
    .option('--json', 'print the numbers as JSON')
    .addOption(new Option('--markdown', 'print them as a table for a document').conflicts('json'))
    .option('--quick', 'only show that everything can be measured')
    .option(
      '--only <part>',
      'one part instead of all: kernels, executors, daemon, gateway, agents or neighbours',
      parseText,
    )
    .action(async ({ json = false, markdown = false, quick = false, only }: Partial<BenchFlags>) => {
      const part = only === undefined ? {} : { only };
      done(await context.bench({ json, markdown, quick, ...part }, context.terminal));
    });
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
