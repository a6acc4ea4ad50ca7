/** The folders of an environment, as the host and as the environment itself call them. */

import { realpathSync, statSync } from 'node:fs';
import { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import type { BasePaths } from './contract.ts';
import type { FilesRoot } from './files/files.ts';
import { partsOf, refused } from './files/path.ts';

const absolute = z
  .string()
  .max(4096)
  .refine((path) => path.startsWith('/') && !path.includes('\0') && !path.split('/').includes('..'), {
    message: 'must be an absolute path',
  });

export const MappedFolder = z.strictObject({
  /** On the host, without links. */
  host: absolute,
  /** As the environment sees it. */
  inside: absolute,
});
export type MappedFolder = z.infer<typeof MappedFolder>;

export const EnvironmentFolders = z.strictObject({
  workspace: MappedFolder,
  home: MappedFolder,
  /** Where the runner and the programs of agents are, as the environment sees it. */
  app: absolute,
  bundledMcp: absolute,
});
export type EnvironmentFolders = z.infer<typeof EnvironmentFolders>;

export function basePathsOf({ workspace, home, app, bundledMcp }: EnvironmentFolders): BasePaths {
  return { APP_DIR: app, WORKSPACE_DIR: workspace.inside, HOME_DIR: home.inside, BUNDLED_MCP_DIR: bundledMcp };
}

/** The folder on the host, without links on the way. */
export function realFolder(path: string): string {
  try {
    const real = realpathSync(path);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `There is no folder ${path}.`, { cause });
  }
  throw new CellaError('INVALID_OPTIONS', `${path} is not a folder.`);
}

/** How its folders are reached on the host. */
export interface EnvironmentRoots {
  readonly workspace: FilesRoot;
  readonly home: FilesRoot;
}

/** Where something lies: a folder on the host, and the path in it. */
export interface Place {
  readonly root: FilesRoot;
  readonly path: string;
}

/** `path`: absolute as the environment sees it, or relative to the workspace. Links are looked at by whoever opens it. */
export function placeOf(folders: EnvironmentFolders, roots: EnvironmentRoots, path: string): Place {
  const at = folderOf(folders, path);
  return { root: at.folder === folders.workspace ? roots.workspace : roots.home, path: at.parts.join('/') };
}

/** The same, as the environment calls it. */
export function insideOf(folders: EnvironmentFolders, path: string): string {
  const at = folderOf(folders, path);
  return [at.folder.inside, ...at.parts].join('/');
}

function folderOf({ workspace, home }: EnvironmentFolders, path: string): { folder: MappedFolder; parts: string[] } {
  if (!path.startsWith('/')) return { folder: workspace, parts: partsOf(path) };
  // Whole names are compared: /workspace-evil is not in /workspace. One folder may lie in the other: the inner one has it.
  const [folder] = [workspace, home]
    .filter(({ inside }) => path === inside || path.startsWith(`${inside}/`))
    .sort((one, other) => other.inside.length - one.inside.length);
  if (!folder) throw refused(path, 'it is in no folder of the environment');
  return { folder, parts: partsOf(path.slice(folder.inside.length + 1)) };
}
