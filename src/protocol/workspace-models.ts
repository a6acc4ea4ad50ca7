/** Files and terminals of a workspace. */

import { z } from 'zod';

const kind = z.enum(['file', 'folder', 'link', 'other']);

export const FileInfo = z
  .object({
    name: z.string(),
    kind,
    size: z.int(),
    modifiedAt: z.number(),
  })
  .meta({ id: 'FileInfo' });

export type FileInfo = z.infer<typeof FileInfo>;

/** What a watch tells; `watching` comes first. `overflow`: something is missing, list again. */
export const FileChange = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('watching'), folders: z.int() }),
    z.object({ type: z.literal('created'), path: z.string(), kind }),
    z.object({ type: z.literal('changed'), path: z.string(), kind }),
    z.object({ type: z.literal('deleted'), path: z.string() }),
    z.object({
      type: z.literal('overflow'),
      reason: z
        .enum(['events', 'folders'])
        .meta({ description: 'More happened than can be told; or there are more folders than are watched.' }),
    }),
  ])
  .meta({ id: 'FileChange' });

export type FileChange = z.infer<typeof FileChange>;
