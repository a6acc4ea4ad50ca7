/** The files that a workspace has from the start: those that are not there yet. What a person or agent has made stays. */

import { dirname, join } from 'node:path/posix';
import type { AgentProfile } from '../protocol/agent/profile.ts';
import { CellaError } from '../protocol/errors.ts';
import type { EnvironmentPrimitive, FileWrite } from './contract.ts';

export async function firstFiles(
  primitive: EnvironmentPrimitive,
  files: NonNullable<AgentProfile['files']>,
): Promise<FileWrite[]> {
  const folders = new Set(Object.keys(files).map(dirname));
  const there = new Set<string>();
  for (const folder of folders) for (const name of await namesIn(primitive, folder)) there.add(join(folder, name));
  return Object.entries(files)
    .filter(([path]) => !there.has(path))
    .map(([path, content]) => ({
      path,
      content: typeof content === 'string' ? content : Buffer.from(content.base64, 'base64'),
    }));
}

async function namesIn(primitive: EnvironmentPrimitive, folder: string): Promise<string[]> {
  try {
    return (await primitive.listFiles(folder, '*')).map(({ path }) => path);
  } catch (error) {
    // No folder yet, or none that is a folder: whoever writes there is told.
    if (error instanceof CellaError) return [];
    throw error;
  }
}
