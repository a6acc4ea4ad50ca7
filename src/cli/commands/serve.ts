/** `cella serve`: a server in the foreground, until a signal or an administrator ends it; `--detach`, `status` and `stop` load when used. */

import { setFlagsFromString } from 'node:v8';
import { type Command, Option } from 'commander';
import { suggest } from '../../lib/suggest.ts';
import { serveSettings, settings } from '../../settings/settings-table.ts';
import { describeUnknownVariable } from '../../settings/unknown-variables.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { EndSignals, runAbortable } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import type { ServeRequest, StartedServer } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { addSettings, parseSeconds } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addPackageFlags } from '../session-flags.ts';
import { addStorageFlags, resolveDataDir } from '../target-options.ts';
import type { ServeFlags } from './serve-request.ts';
import { endAtSecondSignal, sendReadyMessage, startupMessage, startWarnings } from './serve-startup.ts';

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
    const [{ toServeRequest: requestOf }, { detach }] = await Promise.all([
      import('./serve-request.ts'),
      import('./serve-detach.ts'),
    ]);
    const request = requestOf(flags, context.defaults);
    // A server in the background has been told of by whoever started it.
    if (flags.readyFd === undefined) await warnUnknownVariables(context);
    if (flags.detach) done(await detach(request, context));
    else done(await serveForeground(request, context, flags.readyFd));
  });
  addStatus(command, context, done);
  addStop(command, context, done);
}

async function warnUnknownVariables({ terminal, defaults }: ProgramContext): Promise<void> {
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
      const { status } = await import('./serve-control.ts');
      const flags: Flags = command.optsWithGlobals();
      done(await status(resolveDataDir(flags, context.defaults), context, createOutput(flags, context)));
    },
  );
}

function addStop(parent: Command, context: ProgramContext, done: Done): void {
  addFlags(defineCommand(parent, 'stop', 'end the server on the data folder in good order', help.stop))
    .option('--now', 'interrupt running code at once')
    .option('--timeout <seconds>', 'how long to wait for its end (default: its --grace and a minute)', parseSeconds)
    .action(async (_flags: Flags, command: Command) => {
      const { stop } = await import('./serve-control.ts');
      const flags: Flags = command.optsWithGlobals();
      const { now = false, timeout: timeoutMs } = flags;
      const request = { dataDir: resolveDataDir(flags, context.defaults), now, timeoutMs };
      done(await runAbortable(context, (signal) => stop(request, context, createOutput(flags, context), signal)));
    });
}

function addFlags(command: Command): Command {
  return addSettings(command, [settings.dataDir, settings.config]).option('--json', 'print one JSON object');
}

function createOutput({ json = false }: Flags, { terminal }: ProgramContext): CommandOutput {
  return new CommandOutput(terminal, { json });
}

/**
 * How much the heap may grow before all of it is looked through, which stops everybody for up to 30 ms. Large requests of
 * one user have that done five times a second with V8's own choice; a server with nothing to do needs no more memory by it.
 */
const HEAP_GROWING_PERCENT = 200;

/** The first signal ends it in good order, the second at once. `readyFd` is where a parent waits to hear of it. */
async function serveForeground(request: ServeRequest, context: ProgramContext, readyFd?: number): Promise<number> {
  // A program that runs this command inside has its own signals and its own memory.
  if (context.signals === process) {
    endAtSecondSignal();
    setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
  }
  using signals = new EndSignals(context.signals);
  try {
    const onReady = async (facts: StartedServer) => {
      if (readyFd === undefined) {
        await context.terminal.out(startupMessage(facts, context));
        for (const warning of startWarnings(request.membersMay)) await context.terminal.errLines(warning, 'yellow');
      } else sendReadyMessage(readyFd, { ready: facts });
    };
    await context.serve(request, { onReady, ended: signals.ended });
    return Exit.ok;
  } catch (error) {
    if (readyFd !== undefined) sendReadyMessage(readyFd, { failed: error });
    throw error;
  }
}

const help = {
  serve: `
Examples:
  $ cella serve                                       at http://127.0.0.1:7710, for this machine
  $ cella serve --detach                              the same, in the background
  $ cella serve status                                whether one runs, where, and how it does
  $ cella serve stop                                  end it in good order
  $ cella serve --port 8080 --data ./data             elsewhere
  $ cella serve --storage redis --redis redis://127.0.0.1:6379
  $ cella serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  $ cella serve --host 10.0.0.5 --insecure-http --allow-host cella.example    behind a proxy

On its first start it makes an admin and a token, in the file admin-token of the data folder, and
prints a link to log in with, which works once. \`cella users login\` makes another. Sessions, events
and users are kept in storage: after a restart everything is there. docs/server.md tells the rest.

Every flag can stand in config.yaml of the data folder: \`max-kernels: 8\` is --max-kernels 8.

--members-may, for users who are no administrators, any of these separated by commas:
  in-process    the executor that runs in the server itself: for trusted code
  unsandboxed   code without a sandbox
  network       the network of this machine, and lists of hosts
  folders       folders of this machine
On a server that runs as root, folders, unsandboxed and in-process amount to root for every member.

SIGTERM or Ctrl-C ends it in good order: no new work, running code has --grace seconds, kernels are
saved, clients are told. A second one ends it at once. Logs are JSON, one line each, on stderr; with
--detach in daemon.log of the data folder.

Exit codes:
  0      it was ended in good order; with --detach, it is ready
  1      it could not start or go on, or was ended at once
  2      this command line, or the config file, is wrong`,
  stop: `
Examples:
  $ cella serve stop                  running code has the server's --grace to end
  $ cella serve stop --now            it is interrupted at once; names are saved all the same
  $ cella serve stop --timeout 300    wait longer for its end

It asks the server on the data folder by its socket, and waits until that has gone. No process gets a
signal.

Exit codes:
  0      it has ended and saved everything, or none ran
  1      it has ended and could not save everything, or did not tell; or it is still there after
         --timeout seconds`,
  status: `
Examples:
  $ cella serve status
  $ cella serve status --json | jq .kernels

Exit codes:
  0      a server runs on the data folder, and answers
  1      a process has the folder and does not answer: it starts, ends, or hangs
  3      none runs`,
};
