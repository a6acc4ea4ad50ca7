/** The files of a folder that a person may change: which of them have a name that we know, and how they are opened. */

import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { isName } from '../../protocol/namespace-models.ts';
import { systemCode } from './failure.ts';

export interface Entry {
  /** In its one spelling. */
  readonly name: string;
  readonly path: string;
}

/** By name. Links, folders and names that nothing of ours may have are left out. */
export async function entriesOf(folder: string, ending: string): Promise<Entry[]> {
  const found = new Map<string, Entry>();
  const files = await readdir(folder, { withFileTypes: true }).catch((error) => {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  });
  for await (const file of inSlices(files)) {
    if (!file.isFile() || !file.name.endsWith(ending)) continue;
    const written = file.name.slice(0, file.name.length - ending.length);
    const name = written.normalize('NFC');
    // Of two spellings of one name, ours counts.
    if (isName(written) && (written === name || !found.has(name))) {
      found.set(name, { name, path: join(folder, file.name) });
    }
  }
  return await sortedInSlices([...found.values()], (one, other) => (one.name < other.name ? -1 : 1));
}

/** Where a name is, also in another spelling of it; else where it would be. */
export async function pathOf(folder: string, name: string, ending: string): Promise<string> {
  // Names of plain letters have one spelling.
  const other = /^[\x20-\x7e]*$/.test(name) ? undefined : await entriesOf(folder, ending);
  return other?.find((entry) => entry.name === name)?.path ?? join(folder, `${name}${ending}`);
}

/** Opens a plain file and nothing else: no link is followed, and a pipe does not make anyone wait. */
export async function openPlain(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
  } catch (error) {
    await file?.close();
    if (['ENOENT', 'ELOOP', 'ENXIO'].includes(systemCode(error) ?? '')) return undefined;
    throw error;
  }
  await file.close();
  return undefined;
}
