/** Folders of YAML files: which files are there, their state, and their text. */

import type { Stats } from 'node:fs';
import { opendir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { giveWay } from '../../lib/event-loop.ts';
import { messageOf } from '../../lib/values.ts';

export const MOST_YAML_BYTES = 256 * 1024;
/** Of one folder: all of them are looked at for each call. */
const MOST_FILES = 10_000;

/** The text of a definition. */
export interface DefinitionSource {
  readonly where: string;
  readonly name: string;
  /** Undefined if it could not be read; then there is a reason. */
  readonly text: string | undefined;
  readonly problem?: string;
}

export interface YamlFile {
  readonly path: string;
  readonly name: string;
  readonly facts: Stats;
}

export interface YamlFolder {
  readonly files: readonly YamlFile[];
  readonly problem?: { readonly where: string; readonly message: string };
}

export async function yamlFiles(folder: string): Promise<YamlFolder> {
  try {
    const names: string[] = [];
    for await (const { name } of await opendir(folder, { bufferSize: 256 })) {
      await giveWay();
      if (/^[^.].*\.ya?ml$/.test(name)) names.push(name);
      if (names.length > MOST_FILES) throw new Error(`it has more than ${MOST_FILES} files`);
    }
    const files = names.sort().map(async (name) => {
      const path = join(folder, name);
      return { path, name: name.replace(/\.ya?ml$/, ''), facts: await stat(path) };
    });
    // The file was removed meanwhile.
    return {
      files: (await Promise.allSettled(files)).flatMap((file) => (file.status === 'fulfilled' ? file.value : [])),
    };
  } catch (error) {
    return {
      files: [],
      problem: { where: folder, message: `The folder of tools ${folder} cannot be read: ${messageOf(error)}.` },
    };
  }
}

/** A value that differs after each change. */
export function fileState({ path, facts }: YamlFile): unknown[] {
  return [path, facts.ino, facts.size, facts.mtimeMs, facts.ctimeMs];
}

export async function fileSource({ path, name, facts }: YamlFile): Promise<DefinitionSource> {
  const unread = (problem: string): DefinitionSource => ({ where: path, name, text: undefined, problem });
  if (!facts.isFile()) return unread('it is not a file');
  if (facts.size > MOST_YAML_BYTES) return unread(`it is larger than ${MOST_YAML_BYTES / 1024} kB`);
  try {
    return { where: path, name, text: await readFile(path, 'utf8') };
  } catch (error) {
    return unread(messageOf(error));
  }
}
