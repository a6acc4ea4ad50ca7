/** `cella store`: tools, skills, artifacts and deps of a storage, and from one to another. */

import { packageName, parseRequirement } from '../../protocol/requirement.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { CopyKind, CopyNamespaces, StorageAccess, StorageTarget } from '../context.ts';
import { escapeControls, formatCount, formatSize } from '../format.ts';
import { checkSourceFolder, formatStorageUrl, isSameStorage } from '../target-options.ts';

const columns = [{ title: 'KIND' }, { title: 'NAME' }, { title: 'SIZE', align: 'right' as const }];

export async function list(place: StorageTarget, stores: StorageAccess, report: CommandOutput): Promise<number> {
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

export interface CopyRequest {
  readonly from: StorageTarget;
  readonly to: StorageTarget;
  readonly kinds: readonly CopyKind[];
  readonly names: readonly string[] | undefined;
  readonly overwrite: boolean;
}

export async function copy(request: CopyRequest, stores: StorageAccess, report: CommandOutput): Promise<number> {
  const { from, to, names, ...how } = request;
  if (isSameStorage(from, to)) throw new UsageError('Both storages are the same.', 'Name another one.');
  checkSourceFolder(from);
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
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
