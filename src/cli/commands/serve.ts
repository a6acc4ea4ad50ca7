/**
 * `cella serve`: runs a server in the foreground until a signal or an administrator ends it. `status` and `stop` load when
 * used.
 */

import os from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { type Command, Option } from 'commander';
import {
  describeUnknownVariable,
  type PackageFlags,
  resolveDataDir,
  resolvePackages,
  resolveStorage,
  type StorageFlags,
} from '../../settings/process-config.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import { settingsIn } from '../../settings/setting.ts';
import { serverSettings, settings } from '../../settings/settings-table.ts';
import { END_SIGNALS, EndSignals, runAbortable, SAME_SIGNAL_MS } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { addSettings, givenSettings, parseSeconds } from '../options.ts';
import { addPackageFlags, type Defaults } from '../session-flags.ts';
import { addStorageFlags } from '../target-options.ts';
import { detach, sendReadyMessage } from './serve-detach.ts';
import { type StartedServer, startupMessage, startWarnings } from './serve-startup.ts';

interface ControlFlags {
  readonly data?: string;
  readonly json?: boolean;
  readonly now?: boolean;
  readonly timeout?: number;
}

/** `givenSettings` reads the flags of the settings table. */
interface StartFlags extends StorageFlags, PackageFlags {
  readonly python?: string;
  readonly tools?: string[];
  readonly detach?: boolean;
  readonly readyFd?: number;
}

export function addServe(define: DefineCommand, context: CommandContext, done: Done): void {
  const command = define(help.serve);
  addStorageFlags(command)
    // Options after `stop` or `status` belong to those commands.
    .enablePositionalOptions()
    .option('-d, --detach', 'run in the background, with logs in daemon.log of the data folder')
    .addOption(new Option('--ready-fd <fd>').argParser(Number).hideHelp());
  addSettings(
    command,
    settingsIn(serverSettings).map(([, setting]) => setting),
  );
  addSettings(addPackageFlags(command), [settings.python, settings.tools]);
  command.action(async (flags: StartFlags) => {
    const config = await resolveConfig(flags, context.defaults);
    // The command that started a background server has already warned.
    if (flags.readyFd === undefined) await warnUnknownVariables(context);
    if (flags.detach) done(await detach(config, context));
    else done(await serveForeground(config, context, flags.readyFd));
  });
  addStatus(command, context, done);
  addStop(command, context, done);
}

async function resolveConfig(flags: StartFlags, defaults: Defaults): Promise<ServerConfig> {
  const { resolveServerConfig } = await import('../../settings/server-config.ts');
  const given = {
    ...givenSettings(serverSettings, flags),
    ...resolveStorage(flags, defaults),
    packages: resolvePackages(flags, defaults),
    python: flags.python ?? defaults.python,
    toolFolders: flags.tools ?? defaults.toolFolders,
  };
  return resolveServerConfig(given, defaults.variables);
}

async function warnUnknownVariables({ terminal, defaults }: CommandContext): Promise<void> {
  for (const each of defaults.unknownVariables ?? []) await terminal.errLines(describeUnknownVariable(each), 'yellow');
}

function addStatus(parent: Command, context: CommandContext, done: Done): void {
  addFlags(defineCommand(parent, 'status', 'show whether a server runs on the data folder', help.status)).action(
    async (_flags: ControlFlags, command: Command) => {
      const { status } = await import('./serve-control.ts');
      const flags: ControlFlags = command.optsWithGlobals();
      const output = new CommandOutput(context.terminal, flags);
      done(await status(resolveDataDir(flags, context.defaults), output));
    },
  );
}

function addStop(parent: Command, context: CommandContext, done: Done): void {
  addFlags(defineCommand(parent, 'stop', 'shut down the server on the data folder cleanly', help.stop))
    .option('--now', 'interrupt running code at once')
    .option('--timeout <seconds>', 'how long to wait for the end (default: its --grace and a minute)', parseSeconds)
    .action(async (_flags: ControlFlags, command: Command) => {
      const { stop } = await import('./serve-control.ts');
      const flags: ControlFlags = command.optsWithGlobals();
      const { now = false, timeout: timeoutMs } = flags;
      const request = { dataDir: resolveDataDir(flags, context.defaults), now, timeoutMs };
      const output = new CommandOutput(context.terminal, flags);
      done(await runAbortable(context, (signal) => stop(request, output, signal)));
    });
}

function addFlags(command: Command): Command {
  return addSettings(command, [settings.dataDir, settings.config]).option('--json', 'print one JSON object');
}

/**
 * How much the heap may grow before a full collection, which stops all sessions for up to 30 ms. With V8's default, large
 * requests of one user cause five of them a second. An idle server needs no more memory with this setting.
 */
const HEAP_GROWING_PERCENT = 200;

/** The first signal shuts the server down cleanly, the second ends it at once. A parent waits for a line on `readyFd`. */
async function serveForeground(config: ServerConfig, context: CommandContext, readyFd?: number): Promise<number> {
  // A program that runs this command inside its own process handles signals and memory itself.
  if (context.signals === process) {
    endAtSecondSignal();
    setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
  }
  using signals = new EndSignals(context.signals);
  try {
    const onReady = async (facts: StartedServer) => {
      if (readyFd === undefined) {
        await context.terminal.out(await startupMessage(facts, context));
        for (const warning of await startWarnings(config)) await context.terminal.errLines(warning, 'yellow');
      } else sendReadyMessage(readyFd, { ready: facts });
    };
    const [{ serve }, { ownCredentials }] = await Promise.all([
      import('../../server/run-server.ts'),
      import('../backend/local-backend.ts'),
      context.backend.local.endKernelsAtClose(),
    ]);
    const parts = { version: context.version, credentials: ownCredentials };
    await serve(config, parts, signals.ended, ({ loginUrl = '', ...facts }) => onReady({ ...facts, loginUrl }));
    return Exit.ok;
  } catch (error) {
    if (readyFd !== undefined) sendReadyMessage(readyFd, { failed: error });
    throw error;
  }
}

/** How long the default action of the signal may take to end the process before it is killed. */
const LONGEST_END_MS = 200;

/** A worker thread receives the signals, too. */
const SIGNAL_WORKER = `
const { workerData: { signals, sameMs, endMs } } = require('node:worker_threads');
const { Signal } = require('internal/test/binding').internalBinding('signal_wrap');
let first;
const handles = signals.map(([name, number]) => {
  const handle = new Signal();
  handle.onsignal = () => {
    const now = performance.now();
    first ??= { name, at: now };
    if (name === first.name && now - first.at < sameMs) return;
    for (const each of handles) each.stop();
    process.kill(process.pid, name);
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), endMs);
  };
  handle.start(number);
  return handle;
});
`;

/** From now on, the second signal ends the process, even if its event loop is blocked. Does not keep the process alive. */
function endAtSecondSignal(): void {
  const worker = new Worker(SIGNAL_WORKER, {
    eval: true,
    name: 'second signal',
    env: {},
    execArgv: ['--expose-internals', '--no-warnings'],
    workerData: {
      signals: END_SIGNALS.map((name) => [name, os.constants.signals[name]]),
      sameMs: SAME_SIGNAL_MS,
      endMs: LONGEST_END_MS,
    },
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  worker.unref();
  worker.on('error', () => {}); // signals then work as they do without it
}

const help = {
  serve: `
Examples:
  $ cella serve                                       at http://127.0.0.1:7710, for this machine
  $ cella serve --detach                              the same, in the background
  $ cella serve status                                whether a server runs, and where
  $ cella serve stop                                  shut it down cleanly
  $ cella serve --port 8080 --data ./data             another port and data folder
  $ cella serve --storage redis --redis redis://127.0.0.1:6379
  $ cella serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  $ cella serve --host 10.0.0.5 --insecure-http --allow-host cella.example    behind a proxy

The first start creates an administrator with a token, in the file admin-token of the data folder, and
prints a login link that works once. \`cella users login\` prints another. The server stores sessions,
events and users, so they survive a restart. See docs/server.md.

You can set most flags in config.yaml of the data folder: write --max-kernels 8 as \`max-kernels: 8\`.
docs/settings.md lists them.

--members-may takes a list of what users who are not administrators may use, separated by commas:
  in-process    the executor that runs in the server process: for trusted code
  unsandboxed   code without a sandbox
  network       the network of this machine, and lists of hosts
  folders       folders of this machine
If the server runs as root, folders, unsandboxed and in-process make every member root.

SIGTERM or Ctrl-C shuts the server down cleanly: it takes no new work, gives running code --grace seconds,
saves kernels and notifies clients. A second signal ends it at once. Logs are JSON lines on stderr;
with --detach, in daemon.log of the data folder.

Exit codes:
  0      it was shut down cleanly; with --detach, it is ready
  1      it could not start or continue, or was ended at once
  2      the command line, or the config file, is wrong`,
  stop: `
Examples:
  $ cella serve stop                  running code gets the server's --grace to end
  $ cella serve stop --now            running code is interrupted; variables are still saved
  $ cella serve stop --timeout 300    wait longer for the end

Asks the server on the data folder through its socket, and waits until it has ended. Sends no signal.

Exit codes:
  0      it has ended and saved everything, or none was running
  1      it could not save everything, or was killed; or it still runs after --timeout`,
  status: `
Examples:
  $ cella serve status
  $ cella serve status --json | jq .kernels

Exit codes:
  0      a server runs on the data folder, and answers
  1      a process holds the data folder but does not answer: it is starting, shutting down or stuck
  3      no server runs`,
};
