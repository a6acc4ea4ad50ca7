/** `cella store`: moves tools, skills, artifacts and deps between storages. */

import { type Command, InvalidArgumentError } from 'commander';
import type { TransferKind } from '../context.ts';
import { defineCommand, isMeant } from '../define.ts';
import { parseText } from '../parse-text.ts';
import type { ProgramContext } from '../program.ts';
import { dataDirOf, storagePlaceOf } from '../storage-flags.ts';
import { addStoreFlags, addThingFlags, reportOf, type ThingFlags } from '../thing-flags.ts';
import { whereOf } from '../where-flags.ts';
import * as help from './help.ts';

type Done = (exitCode: number) => void;

interface CopyFlags extends ThingFlags {
  readonly only?: TransferKind[];
  readonly overwrite?: boolean;
}

const kinds: readonly TransferKind[] = ['tools', 'skills', 'artifacts', 'deps'];
const PLACE = 'a data folder, or redis://HOST:PORT/?prefix=PREFIX';

export function addStore(program: Command, context: ProgramContext, done: Done): void {
  const group = defineCommand(program, 'store', 'what a storage holds, and copies from one to another', help.store);
  if (!isMeant('store', context)) return;
  addThingFlags(defineCommand(group, 'list', 'tools, skills, artifacts and packages of a storage', help.list))
    .argument('[storage]', `${PLACE} (default: that of --storage and --data)`, parseText)
    .action(async (named: string | undefined, flags: ThingFlags) => {
      const [{ list }, { checkSource, parsePlace }] = await Promise.all([import('./store.ts'), import('./place.ts')]);
      const place =
        named === undefined
          ? whereOf(flags, context.defaults)
          : parsePlace(named, storagePlaceOf(flags, context.defaults).dataDir);
      if (named !== undefined) checkSource(place);
      done(await list(place, context, reportOf(flags, context)));
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
  addStoreFlags(defineCommand(group, direction, summary, examples))
    .argument(`<${role}>`, PLACE, parseText)
    .argument('[names...]', 'only these; all of them where none is named')
    .option('--only <kinds>', 'only some of tools,skills,artifacts,deps', parseKinds)
    .option('--overwrite', 'replace what has the same name there')
    .action(async (named: string, names: string[], flags: CopyFlags) => {
      const [{ copy }, { parsePlace }] = await Promise.all([import('./store.ts'), import('./place.ts')]);
      const own = storagePlaceOf(flags, context.defaults);
      const other = parsePlace(named, dataDirOf(flags, context.defaults));
      const [from, to] = direction === 'pull' ? [other, own] : [own, other];
      const { only = kinds, overwrite = false } = flags;
      const request = { from, to, kinds: only, names: names.length === 0 ? undefined : names, overwrite };
      done(await copy(request, context, reportOf(flags, context)));
    });
}

function parseKinds(text: string): TransferKind[] {
  const words = text.split(',').map((word) => word.trim());
  return words.map((word) => {
    const kind = kinds.find((each) => each === word);
    if (kind) return kind;
    throw new InvalidArgumentError(`Allowed are ${kinds.join(', ')}, separated by commas.`);
  });
}
