/** The program `cella`: gives the command line its parts, and ends the process with its exit code. */

import { BackendSelector } from './cli/backend/backend-selector.ts';
import { LocalBackend } from './cli/backend/local-backend.ts';
import { runCommandLine } from './cli/command-line.ts';
import { Exit } from './cli/exit-codes.ts';
import { CliTerminal } from './cli/terminal/terminal.ts';
import { packageVersion } from './interpreter/package-file.ts';
import { endThisProcess } from './lib/process-end.ts';
import { loadConfig, readProcessConfig } from './settings/process-config.ts';

/** Of a server in the background: from its first moment on, before any of our code runs. */
function withoutDebugger(nodeFlags: readonly string[]): readonly string[] {
  return nodeFlags.includes('--disable-sigusr1') ? nodeFlags : [...nodeFlags, '--disable-sigusr1'];
}

/** Started by bin/cella.cjs for an older Node: when that process is gone, nobody waits for this one. */
function endWithLauncher(): void {
  if (!process.channel) return;
  process.on('disconnect', () => process.emit('SIGHUP', 'SIGHUP') || process.exit(Exit.hangup));
  process.channel.unref();
}

// Node would open its debugger at this signal, on a port that every local user can connect to.
process.on('SIGUSR1', () => {});
endWithLauncher();
const { stdin, stdout, stderr } = process;
const defaults = readProcessConfig();
const terminal = new CliTerminal({ stdin, stdout, stderr, noColor: defaults.noColor });
const backend = new BackendSelector(new LocalBackend());
const exitCode = await runCommandLine(process.argv.slice(2), {
  terminal,
  signals: process,
  backend,
  version: packageVersion(),
  defaults,
  configured: loadConfig,
  ownCommand: [process.execPath, ...withoutDebugger(process.execArgv), process.argv[1] ?? ''],
});
await backend.close();
const flushed = await terminal.flush().then(
  () => true,
  () => false,
);
endThisProcess(flushed || exitCode !== Exit.ok ? exitCode : Exit.brokenPipe);
