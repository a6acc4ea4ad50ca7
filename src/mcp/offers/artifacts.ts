/** list_artifacts: the data that code has kept. */

import { z } from 'zod';
import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { Shop } from '../shop.ts';
import { type Bench, brief, guarded, LOOKS, listing } from './offer.ts';

export const ROOT = 'cella://artifacts/';
const MOST_LISTED = 500;

const Artifacts = z.object({
  artifacts: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      media_type: z.string(),
      size: z.number(),
      updated: z.string(),
      description: z.string(),
      uri: z.string(),
    }),
  ),
  left_out: z.number(),
});

type Told = z.infer<typeof Artifacts>['artifacts'][number];

export function offerArtifacts({ server, workshop }: Bench): void {
  server.registerTool(
    'list_artifacts',
    {
      title: 'List artifacts',
      description:
        'List the data that is kept, the newest first. Code that run_code runs reads it with artifacts.load(NAME) and keeps more with artifacts.save(NAME, VALUE, description=...).',
      inputSchema: z.strictObject({}),
      outputSchema: Artifacts,
      annotations: LOOKS,
    },
    () =>
      guarded(workshop, async () => {
        const { shown, leftOut } = await newest(workshop);
        const told = shown.map(tell);
        const lines = told.map(toLine);
        if (leftOut > 0) lines.push(`[${leftOut} older ones are not shown: use artifacts.list() in code]`);
        return listing(lines, 'There are no artifacts.', { artifacts: told, left_out: leftOut });
      }),
  );
}

export async function newest(workshop: Shop): Promise<{ shown: ArtifactInfo[]; leftOut: number }> {
  const all = await (await workshop.namespaces()).artifacts.list();
  const shown = all.toSorted((one, other) => other.updatedAt - one.updatedAt).slice(0, MOST_LISTED);
  return { shown, leftOut: all.length - shown.length };
}

export const uriOf = (name: string) => `${ROOT}${encodeURIComponent(name)}`;

function tell({ name, type, mediaType, size, updatedAt, description }: ArtifactInfo): Told {
  const updated = new Date(updatedAt).toISOString();
  return { name, type, media_type: mediaType, size, updated, description: brief(description), uri: uriOf(name) };
}

function toLine({ name, media_type, size, description }: Told): string {
  return `${name} (${media_type}, ${size} bytes)${description === '' ? '' : `: ${description}`}`;
}
