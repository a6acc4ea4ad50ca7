/** `cella deps`: the Python packages that kernels have. */

import type { DepsApi, DepsResult } from '../../session/api.ts';
import { Exit } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import type { CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import {
  addNamespaceFlags,
  addNamespacePackageFlags,
  createOutput,
  type NamespaceFlags,
  namespacesOptions,
} from '../session-flags.ts';

type Work = (deps: DepsApi) => PackageChange;

export function addDeps(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.deps);
  const perform = async (flags: NamespaceFlags, work: Work) => {
    await using namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
    const { deps } = namespaces;
    done(await runAbortable(context, (signal) => change(work(deps), createOutput(flags, context), signal)));
  };
  addNamespacePackageFlags(defineCommand(group, 'add', 'install packages, and keep them for all kernels', help.add))
    .argument('<requirement...>', 'a package, with versions if needed: pandas, "pandas>=2.0"', parseWords)
    .action((requirements: string[], flags: NamespaceFlags) =>
      perform(flags, (deps) => (options) => deps.add(requirements, options)),
    );
  addNamespacePackageFlags(defineCommand(group, 'remove', 'leave a package out from the next kernel on', help.remove))
    .argument('<name>', 'the name of the package', parseText)
    .action((name: string, flags: NamespaceFlags) => perform(flags, (deps) => (options) => deps.remove(name, options)));
  addNamespaceFlags(defineCommand(group, 'list', 'the packages that are configured', help.list)).action(
    async (flags: NamespaceFlags) => {
      await using namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
      done(await list(namespaces.deps, createOutput(flags, context)));
    },
  );
  addNamespacePackageFlags(defineCommand(group, 'sync', 'install what is configured and not there', help.sync)).action(
    (flags: NamespaceFlags) => perform(flags, (deps) => (options) => deps.sync(options)),
  );
}

function parseWords(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), parseText(text)];
}

export async function list(deps: DepsApi, report: CommandOutput): Promise<number> {
  const requirements = await deps.list();
  const facts = { deps: requirements };
  if (requirements.length === 0) {
    await report.empty(facts, 'No packages are configured. `cella deps add NAME` adds one.');
    return Exit.ok;
  }
  await report.result(facts, requirements.map(escapeControls).join('\n'));
  return Exit.ok;
}

export type PackageChange = (options: {
  signal: AbortSignal;
  onProgress: (text: string) => void;
}) => Promise<DepsResult>;

/** Adds, removes or installs, and tells what came of it. What failed makes the command fail. */
export async function change(work: PackageChange, report: CommandOutput, signal: AbortSignal): Promise<number> {
  const { terminal, json } = report;
  const onProgress = (text: string) => {
    // A failed write fails again with the result, and is reported there.
    if (!json) void terminal.status(text).catch(() => {});
  };
  const { installed, failed, removed, note } = await work({ signal, onProgress });
  const exitCode = failed.length === 0 && (removed === undefined || removed.length > 0) ? Exit.ok : Exit.failed;
  const facts = { installed, failed, ...(removed ? { removed } : {}), ...(note === undefined ? {} : { note }) };
  if (await report.printJson(facts)) return exitCode;
  const lines = [
    ...(installed.length > 0 ? [`Installed ${installed.map(escapeControls).join(', ')}.`] : []),
    ...(removed && removed.length > 0 ? [`Removed ${removed.map(escapeControls).join(', ')}.`] : []),
  ];
  if (lines.length > 0) await report.success({}, lines.join('\n'));
  else if (failed.length === 0 && note === undefined) await report.empty({}, 'No packages are configured.');
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

export const help = {
  deps: `
Examples:
  $ cella deps add 'pandas>=2' httpx    install them, and keep them for all kernels
  $ cella deps list                     what is configured
  $ cella deps remove httpx             without it from the next kernel on
  $ cella deps sync                     install what is configured, as on another machine

Packages are installed on this machine as wheels, as an unprivileged user, with uv where there is
one and pip elsewhere. All agents of a storage have them.`,
  add: `
Examples:
  $ cella deps add pandas
  $ cella deps add 'pandas>=2,<3' 'httpx[http2]'
  $ cella deps add ours --index https://packages.example/simple
  $ cella deps add ours --no-index --wheels ./wheels

Those that cannot be installed are told with the installer's reason, the others are added; the exit
code is 1 then. A password in --index can be seen by other users of this machine: put it in
CELLA_INDEX instead. The code finds packages that came from the places it runs with, so give
\`cella run\` the same --index, --wheels and --no-index, or set CELLA_INDEX, CELLA_WHEELS and
CELLA_NO_INDEX for both.`,
  remove: `
Examples:
  $ cella deps remove pandas

What running code has imported stays until its kernel ends.`,
  list: `
Examples:
  $ cella deps list
  $ cella deps list --json | jq -r '.deps[]'`,
  sync: `
Examples:
  $ cella deps sync
  $ cella deps sync --redis redis://127.0.0.1:6379
  $ cella deps sync --executor container    for the Python of the image, and not of this machine

Each Python has packages of its own: give \`cella run\` the same --executor and --image, or set
CELLA_EXECUTOR and CELLA_IMAGE for both.`,
};
