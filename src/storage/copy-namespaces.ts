/** Copies tools, skills, artifacts and deps from one storage to another, in bounded memory. */

import type { ArtifactInfo } from '../protocol/namespace-models.ts';
import { packageName, parseRequirement } from '../protocol/requirement.ts';
import type { ArtifactStore, DepsStore, Storage, TextStore } from './contract.ts';

export type NamespaceKind = 'tools' | 'skills' | 'artifacts' | 'deps';

export interface CopyItem {
  readonly kind: NamespaceKind;
  /** For deps, the requirement. */
  readonly name: string;
}

export interface CopyProgress extends CopyItem {
  readonly done: 'copied' | 'skipped';
}

export interface CopyOptions {
  readonly kinds: readonly NamespaceKind[];
  /** Only these names. Package names can be in any spelling. */
  readonly names?: readonly string[];
  /** If the other storage has an item of the same name: replace it, or keep it. */
  readonly overwrite: boolean;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export interface CopyResult {
  readonly copied: CopyItem[];
  /** Items that the other storage already has. */
  readonly skipped: CopyItem[];
}

/** How much of an artifact to keep in memory at a time. */
const PART_BYTES = 1024 * 1024;

type Copy = (name: string) => Promise<boolean>;

export async function copyNamespaces(from: Storage, to: Storage, options: CopyOptions): Promise<CopyResult> {
  const result: CopyResult = { copied: [], skipped: [] };
  for (const kind of options.kinds) {
    const { names, copy } = await plan(kind, from, to, options.overwrite);
    for (const name of names.filter((each) => isWanted(kind, each, options.names))) {
      const done = (await copy(name)) ? 'copied' : 'skipped';
      result[done].push({ kind, name });
      options.onProgress?.({ kind, name, done });
    }
  }
  return result;
}

async function plan(
  kind: NamespaceKind,
  from: Storage,
  to: Storage,
  overwrite: boolean,
): Promise<{ names: string[]; copy: Copy }> {
  switch (kind) {
    case 'tools':
    case 'skills':
      return planTexts(from[kind], to[kind], overwrite);
    case 'artifacts':
      return planArtifacts(from.artifacts, to.artifacts, overwrite);
    case 'deps':
      return { names: await from.deps.list(), copy: (text) => copyDep(to.deps, text, overwrite) };
  }
}

async function planTexts(from: TextStore, to: TextStore, overwrite: boolean): Promise<{ names: string[]; copy: Copy }> {
  const names = (await from.list()).map(({ name }) => name);
  const copy: Copy = async (name) => {
    const found = await from.get(name);
    return found !== undefined && (await to.put(name, found.text, { ifAbsent: !overwrite }));
  };
  return { names, copy };
}

async function planArtifacts(
  from: ArtifactStore,
  to: ArtifactStore,
  overwrite: boolean,
): Promise<{ names: string[]; copy: Copy }> {
  const names = (await from.list()).map(({ name }) => name);
  const copy: Copy = async (name) => {
    if (!overwrite && (await to.get(name))) return false;
    await using reader = await from.open(name);
    if (!reader) return false;
    await using writer = await to.begin(name);
    for (let offset = 0; offset < reader.info.size; ) {
      const part = await reader.read(offset, PART_BYTES);
      // The file was truncated in the meantime.
      if (part.length === 0) break;
      await writer.write(part);
      offset += part.length;
    }
    await writer.finish(factsOf(reader.info));
    return true;
  };
  return { names, copy };
}

const factsOf = ({ type, mediaType, description, metadata }: ArtifactInfo) => ({
  type,
  mediaType,
  description,
  metadata,
});

async function copyDep(to: DepsStore, requirement: string, overwrite: boolean): Promise<boolean> {
  if (!overwrite) {
    const { name } = parseRequirement(requirement);
    const taken = (await to.list()).some((other) => parseRequirement(other).name === name);
    if (taken) return false;
  }
  return (await to.add(requirement)) || overwrite;
}

function isWanted(kind: NamespaceKind, name: string, names: readonly string[] | undefined): boolean {
  if (!names) return true;
  if (kind !== 'deps') return names.some((wanted) => wanted.normalize('NFC') === name);
  const own = parseRequirement(name).name;
  return names.some((wanted) => wanted === name || packageName(wanted) === own);
}
