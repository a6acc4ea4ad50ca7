/** `cella storage`: the content of a storage, and copies between storages. */

import { type Command, InvalidArgumentError } from 'commander';
import { packageName, parseRequirement } from '../../protocol/requirement.ts';
import { isSameStorage } from '../../protocol/server-info.ts';
import { resolveDataDir, resolveStorage } from '../../settings/process-config.ts';
import type { CopyItem, CopyProgress, NamespaceKind } from '../../storage/copy-namespaces.ts';
import type { Backend, StorageTarget } from '../backend/backend.ts';
import type { LocalBackend } from '../backend/local-backend.ts';
import { UsageError } from '../command-errors.ts';
import { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatCount, formatSize } from '../format.ts';
import { parseText } from '../options.ts';
import { addNamespaceFlags, addStorageNamespaceFlags, type NamespaceFlags } from '../session-flags.ts';
import { checkSourceFolder, formatStorageUrl, parseStorageUrl, resolveTarget } from '../target-options.ts';

interface CopyFlags extends NamespaceFlags {
  readonly only?: NamespaceKind[];
  readonly overwrite?: boolean;
}

const kinds: readonly NamespaceKind[] = ['tools', 'skills', 'artifacts', 'deps'];
const STORAGE = 'data folder, or redis://HOST:PORT/?prefix=PREFIX';

export function addStorage(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.storage);
  addNamespaceFlags(defineCommand(group, 'list', 'list tools, skills, artifacts and packages of a storage', help.list))
    .argument('[storage]', `${STORAGE} (default: that of --storage and --data)`, parseText)
    .action(async (named: string | undefined, flags: NamespaceFlags) => {
      const target =
        named === undefined
          ? resolveTarget(flags, context.defaults)
          : parseStorageUrl(named, resolveStorage(flags, context.defaults).dataDir);
      if (named !== undefined) checkSourceFolder(target);
      done(await list(target, context.backend, new CommandOutput(context.terminal, flags)));
    });
  addCopy(group, context, done, 'pull', 'copy from another storage to this one', help.pull);
  addCopy(group, context, done, 'push', 'copy from this storage to another one', help.push);
}

function addCopy(
  group: Command,
  context: CommandContext,
  done: Done,
  direction: 'pull' | 'push',
  summary: string,
  examples: string,
): void {
  const role = direction === 'pull' ? 'source' : 'target';
  addStorageNamespaceFlags(defineCommand(group, direction, summary, examples))
    .argument(`<${role}>`, STORAGE, parseText)
    .argument('[names...]', 'copy only these (default: everything)')
    .option('--only <kinds>', 'copy only some of tools,skills,artifacts,deps', parseKinds)
    .option('--overwrite', 'replace items of the same name')
    .action(async (named: string, names: string[], flags: CopyFlags) => {
      const own = resolveStorage(flags, context.defaults);
      const other = parseStorageUrl(named, resolveDataDir(flags, context.defaults));
      const [from, to] = direction === 'pull' ? [other, own] : [own, other];
      const { only = kinds, overwrite = false } = flags;
      const request = { from, to, kinds: only, names: names.length === 0 ? undefined : names, overwrite };
      done(await copy(request, context.backend.local, new CommandOutput(context.terminal, flags)));
    });
}

function parseKinds(text: string): NamespaceKind[] {
  const words = text.split(',').map((word) => word.trim());
  return words.map((word) => {
    const kind = kinds.find((each) => each === word);
    if (kind) return kind;
    throw new InvalidArgumentError(`Allowed are ${kinds.join(', ')}, separated by commas.`);
  });
}

const columns = [{ title: 'KIND' }, { title: 'NAME' }, { title: 'SIZE', align: 'right' as const }];

async function list(target: StorageTarget, backend: Backend, report: CommandOutput): Promise<number> {
  const { tools, skills, artifacts, deps } = await backend.listStorage(target);
  const facts = { storage: formatStorageUrl(target), tools, skills, artifacts, deps };
  const rows = [
    ...tools.map((name) => ['tool', name]),
    ...skills.map((name) => ['skill', name]),
    ...artifacts.map(({ name, size }) => ['artifact', name, formatSize(size)]),
    ...deps.map((requirement) => ['package', requirement]),
  ];
  if (rows.length === 0) await report.empty(facts, `${formatStorageUrl(target)} is empty.`);
  else await report.table(facts, columns, rows);
  return Exit.ok;
}

interface CopyRequest {
  readonly from: StorageTarget;
  readonly to: StorageTarget;
  readonly kinds: readonly NamespaceKind[];
  readonly names: readonly string[] | undefined;
  readonly overwrite: boolean;
}

async function copy(request: CopyRequest, backend: LocalBackend, report: CommandOutput): Promise<number> {
  const { from, to, names, ...how } = request;
  if (isSameStorage(from, to)) throw new UsageError('Both storages are the same.', 'Name another one.');
  checkSourceFolder(from);
  const onProgress = ({ name, done }: CopyProgress) => {
    if (report.terminal.stderrIsScreen) report.progress(`${name} ${done}`);
  };
  const transfer = { ...how, names, onProgress };
  const { copied, skipped } = await backend.copyNamespaces(from, to, transfer);
  const exitCode = names !== undefined && copied.length + skipped.length === 0 ? Exit.failed : Exit.ok;
  const facts = { from: formatStorageUrl(from), to: formatStorageUrl(to), copied, skipped };
  if (await report.printJson(facts)) return exitCode;
  await report.success({}, `Copied ${countKinds(copied)} to ${formatStorageUrl(to)}.`);
  if (skipped.length > 0) {
    await report.warn([`cella: Skipped ${countKinds(skipped)} that the target already has. Replace with --overwrite.`]);
  }
  const missing = (names ?? []).filter((name) => ![...copied, ...skipped].some((item) => isNamed(item, name)));
  if (missing.length > 0) {
    await report.warn([`cella: Not found in ${formatStorageUrl(from)}: ${missing.map(escapeControls).join(', ')}.`]);
  }
  if (copied.some(({ kind }) => kind === 'deps')) {
    await report.empty({}, 'Install the packages with `cella deps sync`, or --sync-deps.');
  }
  return exitCode;
}

/** Package names match in any spelling, with or without versions. */
function isNamed({ kind, name }: CopyItem, wanted: string): boolean {
  if (name === wanted.normalize('NFC')) return true;
  return kind === 'deps' && parseRequirement(name).name === packageName(wanted);
}

const words: Readonly<Record<NamespaceKind, string>> = {
  tools: 'tool',
  skills: 'skill',
  artifacts: 'artifact',
  deps: 'package',
};

function countKinds(items: readonly CopyItem[]): string {
  const counts = Object.entries(Object.groupBy(items, ({ kind }) => words[kind]));
  const texts = counts.map(([word, each]) => formatCount(each?.length ?? 0, word));
  return texts.length === 0 ? 'nothing' : texts.join(', ');
}

const same = `
Keeps and reports items of the same name, unless you add --overwrite. If you name items and Cella finds
none of them, the exit code is 1.`;

const help = {
  storage: `
Examples:
  $ cella storage list
  $ cella storage push redis://127.0.0.1:6379           from the files here to Redis
  $ cella storage pull ../other/data --only skills      from another data folder
  $ cella storage push 'redis://127.0.0.1:6379/?prefix=team' --overwrite

Copies tools, skills, artifacts and the list of packages, but not agent keys, their variables
and checkpoints. See docs/storage.md.`,
  list: `
Examples:
  $ cella storage list
  $ cella storage list 'redis://127.0.0.1:6379/?prefix=team' --json`,
  pull: `
Examples:
  $ cella storage pull redis://127.0.0.1:6379
  $ cella storage pull ../other/data --only skills,tools
  $ cella storage pull ../other/data double grep        only these
${same}`,
  push: `
Examples:
  $ cella storage push redis://127.0.0.1:6379
  $ cella storage push 'redis://127.0.0.1:6379/?prefix=team' --only artifacts --overwrite
  $ cella storage push ./backup
${same}`,
};
