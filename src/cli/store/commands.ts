/** `cella store`: moves tools, skills, artifacts and deps between storages. */

import { type Command, InvalidArgumentError } from 'commander';
import type { CopyKind } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addNamespaceFlags, addStorageNamespaceFlags, createOutput, type NamespaceFlags } from '../session-options.ts';
import { resolveDataDir, resolveStorage, resolveTarget } from '../target-options.ts';
import { help } from './help.ts';

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
      const [{ list }, { checkSourceFolder: checkSource, parseStorageUrl: parsePlace }] = await Promise.all([
        import('./store.ts'),
        import('../target-options.ts'),
      ]);
      const place =
        named === undefined
          ? resolveTarget(flags, context.defaults)
          : parsePlace(named, resolveStorage(flags, context.defaults).dataDir);
      if (named !== undefined) checkSource(place);
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
      const [{ copy }, { parseStorageUrl: parsePlace }] = await Promise.all([
        import('./store.ts'),
        import('../target-options.ts'),
      ]);
      const own = resolveStorage(flags, context.defaults);
      const other = parsePlace(named, resolveDataDir(flags, context.defaults));
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
