/** What a set holds: told by the names in it, and written down in it. Nothing of it is ever run or imported here. */

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { parseJson } from '../../interpreter/find-python.ts';
import { packageName, parseRequirement } from '../../protocol/requirement.ts';

export const MANIFEST = 'cella-set.json';

export const SetManifest = z.object({
  format: z.literal(1),
  tag: z.string(),
  requirements: z.array(z.string()),
  /** All that is in it, by name: what was asked for, and what that needs. */
  distributions: z.array(z.object({ name: z.string(), version: z.string() })),
  installer: z.string(),
  /** Milliseconds since 1970. */
  builtAt: z.number(),
});
export type SetManifest = z.infer<typeof SetManifest>;

/** Undefined where there is no complete set of this format. */
export async function readManifest(set: string): Promise<SetManifest | undefined> {
  const text = await readFile(join(set, MANIFEST), 'utf8').catch(() => '');
  return SetManifest.safeParse(parseJson(text)).data;
}

export async function distributionsIn(folder: string): Promise<SetManifest['distributions']> {
  const found = (await readdir(folder)).flatMap((entry) => {
    const [, name, version] = /^([^-]+)-([^-]+)\.dist-info$/.exec(entry) ?? [];
    return name === undefined || version === undefined ? [] : [{ name: packageName(name), version }];
  });
  return found.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The requirements whose package is not there, whatever the installer said. */
export function missingFrom(distributions: SetManifest['distributions'], requirements: readonly string[]): string[] {
  const names = new Set(distributions.map(({ name }) => name));
  return requirements.filter((requirement) => !names.has(parseRequirement(requirement).name));
}
