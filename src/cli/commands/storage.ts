/** `cella store`: what a storage holds, and copies from one storage to another. */

import { type Command, InvalidArgumentError } from 'commander';
import { packageName, parseRequirement } from '../../protocol/requirement.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { CopyKind, CopyNamespaces, StorageAccess, StorageTarget } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatCount, formatSize } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addNamespaceFlags, addStorageNamespaceFlags, createOutput, type NamespaceFlags } from '../session-flags.ts';
import {
  checkSourceFolder,
  formatStorageUrl,
  isSameStorage,
  parseStorageUrl,
  resolveDataDir,
  resolveStorage,
  resolveTarget,
} from '../target-options.ts';

interface CopyFlags extends NamespaceFlags {
  readonly only?: CopyKind[];
  readonly overwrite?: boolean;
}

const kinds: readonly CopyKind[] = ['tools', 'skills', 'artifacts', 'deps'];
const PLACE = 'a data folder, or redis://HOST:PORT/?prefix=PREFIX';

export function addStore(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.store);
  addNamespaceFlags(defineCommand(group, 'list', 'tools, skills, artifacts and packages of a storage', help.list))
    .argument('[storage]', `${PLACE} (default: that of --storage and --data)`, parseText)
    .action(async (named: string | undefined, flags: NamespaceFlags) => {
      const place =
        named === undefined
          ? resolveTarget(flags, context.defaults)
          : parseStorageUrl(named, resolveStorage(flags, context.defaults).dataDir);
      if (named !== undefined) checkSourceFolder(place);
      done(await list(place, context, createOutput(flags, context)));
    });
  addCopy(group, context, done, 'pull', 'copy from another storage into this one', help.pull);
  addCopy(group, context, done, 'push', 'copy from this storage into another one', help.push);
}

function addCopy(
  group: Command,
  context: ProgramContext,
  done: Done,
  direction: 'pull' | 'push',
  summary: string,
  examples: string,
): void {
  const role = direction === 'pull' ? 'source' : 'target';
  addStorageNamespaceFlags(defineCommand(group, direction, summary, examples))
    .argument(`<${role}>`, PLACE, parseText)
    .argument('[names...]', 'only these; all of them where none is named')
    .option('--only <kinds>', 'only some of tools,skills,artifacts,deps', parseKinds)
    .option('--overwrite', 'replace what has the same name there')
    .action(async (named: string, names: string[], flags: CopyFlags) => {
      const own = resolveStorage(flags, context.defaults);
      const other = parseStorageUrl(named, resolveDataDir(flags, context.defaults));
      const [from, to] = direction === 'pull' ? [other, own] : [own, other];
      const { only = kinds, overwrite = false } = flags;
      const request = { from, to, kinds: only, names: names.length === 0 ? undefined : names, overwrite };
      done(await copy(request, context, createOutput(flags, context)));
    });
}

function parseKinds(text: string): CopyKind[] {
  const words = text.split(',').map((word) => word.trim());
  return words.map((word) => {
    const kind = kinds.find((each) => each === word);
    if (kind) return kind;
    throw new InvalidArgumentError(`Allowed are ${kinds.join(', ')}, separated by commas.`);
  });
}

const columns = [{ title: 'KIND' }, { title: 'NAME' }, { title: 'SIZE', align: 'right' as const }];

async function list(place: StorageTarget, stores: StorageAccess, report: CommandOutput): Promise<number> {
  const { tools, skills, artifacts, deps } = await stores.listStore(place);
  const facts = { storage: formatStorageUrl(place), tools, skills, artifacts, deps };
  const rows = [
    ...tools.map((name) => ['tool', name]),
    ...skills.map((name) => ['skill', name]),
    ...artifacts.map(({ name, size }) => ['artifact', name, formatSize(size)]),
    ...deps.map((requirement) => ['package', requirement]),
  ];
  if (rows.length === 0) await report.empty(facts, `There is nothing in ${formatStorageUrl(place)} yet.`);
  else await report.table(facts, columns, rows);
  return Exit.ok;
}

interface CopyRequest {
  readonly from: StorageTarget;
  readonly to: StorageTarget;
  readonly kinds: readonly CopyKind[];
  readonly names: readonly string[] | undefined;
  readonly overwrite: boolean;
}

async function copy(request: CopyRequest, stores: StorageAccess, report: CommandOutput): Promise<number> {
  const { from, to, names, ...how } = request;
  if (isSameStorage(from, to)) throw new UsageError('Both storages are the same.', 'Name another one.');
  checkSourceFolder(from);
  const onProgress = (text: string) => {
    // A failed write fails again with the result, and is reported there.
    if (!report.json && report.terminal.stderrIsScreen) void report.terminal.status(text).catch(() => {});
  };
  const transfer = { ...how, ...(names === undefined ? {} : { names }), onProgress };
  const { copied, skipped } = await stores.copyNamespaces(from, to, transfer);
  const exitCode = names !== undefined && copied.length + skipped.length === 0 ? Exit.failed : Exit.ok;
  const facts = { from: formatStorageUrl(from), to: formatStorageUrl(to), copied, skipped };
  if (await report.printJson(facts)) return exitCode;
  await report.success({}, `${countKinds(copied)} copied to ${formatStorageUrl(to)}.`);
  if (skipped.length > 0) {
    const were = skipped.length === 1 ? 'was' : 'were';
    await report.warn([`cella: ${countKinds(skipped)} ${were} there already; --overwrite replaces what is there.`]);
  }
  const missing = (names ?? []).filter((name) => ![...copied, ...skipped].some((item) => isNamed(item, name)));
  if (missing.length > 0) {
    await report.warn([
      `cella: There is no ${missing.map(escapeControls).join(', no ')} in ${formatStorageUrl(from)}.`,
    ]);
  }
  if (copied.some(({ kind }) => kind === 'deps')) {
    await report.empty({}, 'Packages are installed by `cella deps sync`, or --sync-deps.');
  }
  return exitCode;
}

type Item = Awaited<ReturnType<CopyNamespaces>>['copied'][number];

/** Packages may be spelled in any way, with versions or without. */
function isNamed({ kind, name }: Item, wanted: string): boolean {
  if (name === wanted.normalize('NFC')) return true;
  return kind === 'deps' && parseRequirement(name).name === packageName(wanted);
}

const words: Readonly<Record<CopyKind, string>> = {
  tools: 'tool',
  skills: 'skill',
  artifacts: 'artifact',
  deps: 'package',
};

function countKinds(items: readonly Item[]): string {
  const counts = Object.entries(Object.groupBy(items, ({ kind }) => words[kind]));
  const texts = counts.map(([word, each]) => formatCount(each?.length ?? 0, word));
  return texts.length === 0 ? 'Nothing was' : texts.join(', ');
}

const same = `
What has the same name there stays as it is, and is told, unless --overwrite is given. With names, a
command that finds none of them has the exit code 1.`;

const help = {
  store: `
Examples:
  $ cella store list
  $ cella store push redis://127.0.0.1:6379           from the files here to Redis
  $ cella store pull ../other/data --only skills      from the files of another Cella
  $ cella store push 'redis://127.0.0.1:6379/?prefix=team' --overwrite

What is copied are tools, skills, artifacts and the list of packages. Agents and their names stay.`,
  list: `
Examples:
  $ cella store list
  $ cella store list 'redis://127.0.0.1:6379/?prefix=team' --json`,
  pull: `
Examples:
  $ cella store pull redis://127.0.0.1:6379
  $ cella store pull ../other/data --only skills,tools
  $ cella store pull ../other/data double grep        only these
${same}`,
  push: `
Examples:
  $ cella store push redis://127.0.0.1:6379
  $ cella store push 'redis://127.0.0.1:6379/?prefix=team' --only artifacts --overwrite
  $ cella store push ./backup
${same}`,
};
