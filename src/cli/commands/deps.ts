/** `cella deps`: the Python packages that kernels have. */

import type { DepsResult } from '../../protocol/namespace-models.ts';
import type { DepsApi } from '../../session/api.ts';
import { runAbortable } from '../command-lifecycle.ts';
import type { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls } from '../format.ts';
import { collect, parseText } from '../options.ts';
import { addNamespaceFlags, addNamespacePackageFlags, type NamespaceFlags, namespaceRunner } from '../session-flags.ts';

export function addDeps(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.deps);
  const make = (name: string, summary: string, examples: string) =>
    addNamespacePackageFlags(defineCommand(group, name, summary, examples));
  const run = namespaceRunner(context, done);
  const runChange = (flags: NamespaceFlags, work: (deps: DepsApi) => PackageChange) =>
    run(flags, ({ deps }, output) => runAbortable(context, (signal) => change(work(deps), output, signal)));

  make('add', 'install packages and add them to the list', help.add)
    .argument('<requirement...>', 'package, with versions if needed: pandas, "pandas>=2.0"', collect)
    .action((requirements: string[], flags: NamespaceFlags) =>
      runChange(flags, (deps) => (options) => deps.add(requirements, options)),
    );
  make('remove', 'take a package off the list', help.remove)
    .argument('<name>', 'name of the package', parseText)
    .action((name: string, flags: NamespaceFlags) =>
      runChange(flags, (deps) => (options) => deps.remove(name, options)),
    );
  addNamespaceFlags(defineCommand(group, 'list', 'show the list of packages', help.list)).action(
    (flags: NamespaceFlags) => run(flags, ({ deps }, output) => list(deps, output)),
  );
  make('sync', 'install listed packages that are missing here', help.sync).action((flags: NamespaceFlags) =>
    runChange(flags, (deps) => (options) => deps.sync(options)),
  );
}

export async function list(deps: DepsApi, report: CommandOutput): Promise<number> {
  const requirements = await deps.list();
  const facts = { deps: requirements };
  if (requirements.length === 0) {
    await report.empty(facts, 'The list of packages is empty. Add one with `cella deps add NAME`.');
    return Exit.ok;
  }
  await report.result(facts, requirements.map(escapeControls).join('\n'));
  return Exit.ok;
}

export type PackageChange = (options: {
  signal: AbortSignal;
  onProgress: (text: string) => void;
}) => Promise<DepsResult>;

/** Prints what was installed, removed and failed. A failed package makes the command fail. */
export async function change(work: PackageChange, report: CommandOutput, signal: AbortSignal): Promise<number> {
  const { terminal } = report;
  const { installed, failed, removed, note } = await work({ signal, onProgress: report.progress });
  const exitCode = failed.length === 0 && (removed === undefined || removed.length > 0) ? Exit.ok : Exit.failed;
  const facts = { installed, failed, removed, note };
  if (await report.printJson(facts)) return exitCode;
  const lines = [
    ...(installed.length > 0 ? [`Installed ${installed.map(escapeControls).join(', ')}.`] : []),
    ...(removed && removed.length > 0 ? [`Removed ${removed.map(escapeControls).join(', ')}.`] : []),
  ];
  if (lines.length > 0) await report.success({}, lines.join('\n'));
  else if (failed.length === 0 && note === undefined) await report.empty({}, 'The list of packages is empty.');
  if (note !== undefined) await tellNote(report, note, removed?.length === 0);
  for (const { requirement, reason } of failed) {
    await terminal.errLines(
      `cella: ${escapeControls(requirement)} could not be installed: ${escapeControls(reason)}`,
      'red',
    );
  }
  return exitCode;
}

async function tellNote({ terminal }: CommandOutput, note: string, isProblem: boolean): Promise<void> {
  if (!isProblem) return await terminal.errLines(escapeControls(note), 'dim');
  await terminal.errLines(`cella: ${escapeControls(note)}\n\`cella deps list\` shows them.`, 'red');
}

const help = {
  deps: `
Examples:
  $ cella deps add 'pandas>=2' httpx    install packages for all kernels
  $ cella deps list                     show the list
  $ cella deps remove httpx             kernels that start later do not have it
  $ cella deps sync                     install the list, for example on another machine

All agent keys of a storage share one list of packages. Packages are installed as wheels, by an
unprivileged user, with uv or pip. See docs/namespaces.md.`,
  add: `
Examples:
  $ cella deps add pandas
  $ cella deps add 'pandas>=2,<3' 'httpx[http2]'
  $ cella deps add ours --index https://packages.example/simple
  $ cella deps add ours --no-index --wheels ./wheels

If Cella cannot install a package, it prints the installer's reason and installs the others; the exit
code is 1. Other users of this machine can see a password in --index: put it in CELLA_INDEX.

Code finds only packages that were installed from the same sources. Give \`cella run\` the same
--index, --wheels and --no-index, or set CELLA_INDEX, CELLA_WHEELS and CELLA_NO_INDEX for both.`,
  remove: `
Examples:
  $ cella deps remove pandas

Running kernels keep what they have imported.`,
  list: `
Examples:
  $ cella deps list
  $ cella deps list --json | jq -r '.deps[]'`,
  sync: `
Examples:
  $ cella deps sync
  $ cella deps sync --redis redis://127.0.0.1:6379
  $ cella deps sync --executor container    for the Python of the image

Each Python has its own installed packages. Give \`cella run\` the same --executor and --image, or set
CELLA_EXECUTOR and CELLA_IMAGE for both.`,
};
