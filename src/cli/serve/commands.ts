/** `cella serve`: one server for every agent of a team, here or in the background; its status, and its end. */

import { type Command, Option } from 'commander';
import { suggest } from '../../lib/suggest.ts';
import { serveSettings, settings } from '../../settings/settings-table.ts';
import { describeUnknownVariable } from '../../settings/unknown-variables.ts';
import { UsageError } from '../command-errors.ts';
import { CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { addSettings } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addPackageFlags, parseSeconds } from '../session-options.ts';
import { addStorageFlags, resolveDataDir } from '../target-options.ts';
import { help } from './help.ts';
import type { ServeFlags } from './request.ts';

interface Flags {
  readonly data?: string;
  readonly json?: boolean;
  readonly now?: boolean;
  readonly timeout?: number;
}

interface StartFlags extends ServeFlags {
  readonly detach?: boolean;
  readonly readyFd?: number;
}

export function addServe(define: DefineCommand, context: ProgramContext, done: Done): void {
  const command = define(help.serve);
  addStorageFlags(command)
    // What comes after `stop` or `status` is theirs.
    .enablePositionalOptions()
    .option('-d, --detach', 'go on in the background, with logs in daemon.log of the data folder')
    .addOption(new Option('--ready-fd <fd>').argParser(Number).hideHelp());
  addSettings(command, Object.values(serveSettings));
  addSettings(addPackageFlags(command), [settings.python, settings.tools]);
  command.allowExcessArguments(true).action(async (flags: StartFlags) => {
    checkVerb(command);
    const [{ requestOf }, { runHere }, { detach }] = await Promise.all([
      import('./request.ts'),
      import('./here.ts'),
      import('./detach.ts'),
    ]);
    const request = requestOf(flags, context.defaults);
    // A server in the background has been told of by whoever started it.
    if (flags.readyFd === undefined) await tellStray(context);
    if (flags.detach) done(await detach(request, context));
    else done(await runHere(request, context, flags.readyFd));
  });
  addStatus(command, context, done);
  addStop(command, context, done);
}

async function tellStray({ terminal, defaults }: ProgramContext): Promise<void> {
  for (const stray of defaults.strayVariables ?? []) await terminal.errLines(describeUnknownVariable(stray), 'yellow');
}

/** A word that is none of its commands must not start a server. */
function checkVerb({ args, commands }: Command): void {
  const [word] = args;
  if (word === undefined) return;
  const known = commands.map((each) => each.name());
  const meant = suggest(word, known);
  const guess = meant === undefined ? '' : `Did you mean ${meant}? `;
  throw new UsageError(`\`cella serve\` knows no ${JSON.stringify(word)}. ${guess}`.trim(), seeHelp);
}

const seeHelp = 'Run `cella serve --help` to see how it is used.';

function addStatus(parent: Command, context: ProgramContext, done: Done): void {
  addFlags(defineCommand(parent, 'status', 'tell whether a server runs on the data folder', help.status)).action(
    async (_flags: Flags, command: Command) => {
      const { status } = await import('./status.ts');
      const flags: Flags = command.optsWithGlobals();
      done(await status(resolveDataDir(flags, context.defaults), context, reportOf(flags, context)));
    },
  );
}

function addStop(parent: Command, context: ProgramContext, done: Done): void {
  addFlags(defineCommand(parent, 'stop', 'end the server on the data folder in good order', help.stop))
    .option('--now', 'interrupt running code at once')
    .option('--timeout <seconds>', 'how long to wait for its end (default: its --grace and a minute)', parseSeconds)
    .action(async (_flags: Flags, command: Command) => {
      const [{ stop }, { runAbortable: stoppable }] = await Promise.all([
        import('./stop.ts'),
        import('../command-lifecycle.ts'),
      ]);
      const flags: Flags = command.optsWithGlobals();
      const { now = false, timeout: timeoutMs } = flags;
      const request = { dataDir: resolveDataDir(flags, context.defaults), now, timeoutMs };
      done(await stoppable(context, (signal) => stop(request, context, reportOf(flags, context), signal)));
    });
}

function addFlags(command: Command): Command {
  return addSettings(command, [settings.dataDir, settings.config]).option('--json', 'print one JSON object');
}

function reportOf({ json = false }: Flags, { terminal }: ProgramContext): CommandOutput {
  return new CommandOutput(terminal, { json });
}
