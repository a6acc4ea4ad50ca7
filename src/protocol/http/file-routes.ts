/** The routes of the files in a session's workspace. */

import { z } from 'zod';
import { endpoint } from './endpoint.ts';

const tag = 'Files';
const view = { kind: 'session', right: 'view' } as const;
const use = { kind: 'session', right: 'use' } as const;

const path = z.string().max(4096).meta({ description: 'Relative to the workspace.' });
const kind = z.enum(['file', 'folder', 'link', 'other']);
const flag = z.enum(['true', 'false']).default('false');

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

export const WatchFiles = endpoint('get /v1/sessions/{id}/files/watch', tag, view, {
  summary:
    'What is created, changed and deleted below a folder, as it happens: NDJSON, or server-sent events by Accept',
  query: z.strictObject({ path: path.default('') }),
  whileStopping: false,
  gives: ['application/x-ndjson', 'text/event-stream'],
});

export const ListFiles = endpoint('get /v1/sessions/{id}/files', tag, view, {
  summary:
    'What is in a folder of the workspace, by name: up to 10,000 files, or 2 MiB of names; `cut` where there are more',
  query: z.strictObject({ path: path.default('') }),
  result: z.object({ files: z.array(FileInfo).readonly(), cut: z.boolean() }),
});

export const ReadFile = endpoint('get /v1/sessions/{id}/files/content', tag, view, {
  summary: 'The bytes of a file, from an offset on',
  query: z.strictObject({
    path,
    offset: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  }),
  gives: ['application/octet-stream'],
});

export const WriteFile = endpoint('put /v1/sessions/{id}/files/content', tag, use, {
  summary: 'Write a file of any size; the folders on the way are made',
  audit: 'file.write',
  query: z.strictObject({ path }),
  takes: 'application/octet-stream',
  result: FileInfo,
});

export const MakeFolder = endpoint('post /v1/sessions/{id}/files/folders', tag, use, {
  summary: 'Make a folder',
  audit: 'file.make-folder',
  body: z.strictObject({ path }),
});

export const MoveFile = endpoint('post /v1/sessions/{id}/files/move', tag, use, {
  summary: 'Move or rename a file or folder',
  audit: 'file.move',
  body: z.strictObject({ from: path, to: path, replace: z.boolean().optional() }),
  result: FileInfo,
});

export const DeleteFile = endpoint('delete /v1/sessions/{id}/files', tag, use, {
  summary: 'Delete a file or a folder',
  audit: 'file.delete',
  query: z.strictObject({ path, recursive: flag }),
});
