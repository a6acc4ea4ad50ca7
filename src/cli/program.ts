/** The command line of Cella: what can be typed, what each command is for, and where it goes. */

import { Command, CommanderError } from 'commander';
import { addSessionFlags, type Defaults, parseSeconds, type SessionFlags, sessionOptions } from './arguments.ts';
import type { BenchFlags, CommandContext, Tools } from './context.ts';
import { Exit } from './exit.ts';
import { reportFailure } from './failure.ts';
import * as help from './help.ts';
import { chooseSource } from './source.ts';

export interface ProgramContext extends CommandContext, Tools {
  readonly version: string;
  readonly defaults: Defaults;
}

/** Carries out one command line and gives its exit code. */
export async function runProgram(words: readonly string[], context: ProgramContext): Promise<number> {
  let exitCode: number = Exit.ok;
  let json = false;
  const done = (code: number) => {
    exitCode = code;
  };
  const program = buildProgram(context, done);
  program.hook('preAction', (_program, command) => {
    json = command.opts().json === true;
  });
  try {
    await program.parseAsync(words.length === 0 ? ['--help'] : [...words], { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has told what is wrong, or shown the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? Exit.ok : Exit.usage;
    return await reportFailure(context.terminal, error, { json });
  }
}

function buildProgram(context: ProgramContext, done: (exitCode: number) => void): Command {
  const program = new Command('cella')
    .description('A place of its own for every AI agent: a persistent, sandboxed Python kernel.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand('help [command]', "show a command's help")
    .addHelpText('after', help.program);
  // Commands copy these settings when they are added.
  program
    .exitOverride()
    .showHelpAfterError('Run `cella --help` to see all commands.')
    .configureOutput({
      writeOut: (text) => void context.terminal.out(text).catch(() => {}),
      writeErr: (text) => void context.terminal.err(text).catch(() => {}),
      outputError: (text, write) => write(text.replace(/^error: /, 'cella: ')),
    });
  addRun(program, context, done);
  addRepl(program, context, done);
  addDoctor(program, context, done);
  addBench(program, context, done);
  return program;
}

function addCommand(program: Command, name: string, summary: string, examples: string): Command {
  return program
    .command(name)
    .description(summary)
    .showHelpAfterError(`Run \`cella ${name} --help\` to see how it is used.`)
    .addHelpText('after', examples);
}

function addRun(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  addSessionFlags(addCommand(program, 'run', 'run a Python program and show its output and last value', help.run))
    .argument('[file]', 'the program, or - to read it from stdin')
    .option('-c <code>', 'the program itself')
    .option('--timeout <seconds>', 'stop the code after this long', parseSeconds)
    .option('--json', 'print one event a line as JSON, the result last')
    .action(async (file: string | undefined, flags: SessionFlags & { c?: string; timeout?: number; json?: true }) => {
      const source = chooseSource(file, flags.c);
      const session = sessionOptions(flags, context.defaults);
      const { run } = await import('./run.ts');
      done(await run({ source, session, timeoutMs: flags.timeout ?? 0, json: flags.json === true }, context));
    });
}

function addRepl(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  addSessionFlags(addCommand(program, 'repl', 'work in a kernel line by line', help.repl)).action(
    async (flags: SessionFlags) => {
      const { repl } = await import('./repl.ts');
      done(await repl({ session: sessionOptions(flags, context.defaults), version: context.version }, context));
    },
  );
}

function addDoctor(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  addCommand(program, 'doctor', 'tell whether this machine can isolate code, and what is missing', help.doctor)
    .option('--python <path>', 'the Python to look at (default: CELLA_PYTHON, else python3)')
    .option('--json', 'print the report as JSON')
    .action(async (flags: { python?: string; json?: true }) => {
      const { doctor } = await import('./doctor.ts');
      const python = flags.python ?? context.defaults.python;
      const { stdout, noColor } = context.terminal;
      done(await doctor(await context.detect({ python }), { json: flags.json === true, noColor }, stdout));
    });
}

function addBench(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  addCommand(program, 'bench', 'measure starts, executions and memory on this machine', help.bench)
    .option('--json', 'print the numbers as JSON')
    .option('--markdown', 'print them as a table for a document')
    .option('--quick', 'only show that everything can be measured')
    .action(async ({ json = false, markdown = false, quick = false }: Partial<BenchFlags>) => {
      done(await context.bench({ json, markdown, quick }, context.terminal));
    });
}
