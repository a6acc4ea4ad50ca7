/** The routes of the files in a session's workspace. */

import { z } from 'zod';
import { FileInfo } from '../workspace-models.ts';
import { endpoint, mayUse, mayView } from './endpoint.ts';

export { FileChange, FileInfo } from '../workspace-models.ts';

const filesTag = 'Files';

const path = z.string().max(4096).meta({ description: 'Relative to the workspace.' });
const flag = z.enum(['true', 'false']).default('false');

export const WatchFiles = endpoint('get /v1/sessions/{id}/files/watch', filesTag, mayView, {
  summary:
    'What is created, changed and deleted below a folder, as it happens: NDJSON, or server-sent events by Accept',
  query: z.strictObject({ path: path.default('') }),
  whileStopping: false,
  gives: ['application/x-ndjson', 'text/event-stream'],
});

export const ListFiles = endpoint('get /v1/sessions/{id}/files', filesTag, mayView, {
  summary:
    'What is in a folder of the workspace, by name: up to 10,000 files, or 2 MiB of names; `cut` where there are more',
  query: z.strictObject({ path: path.default('') }),
  result: z.object({ files: z.array(FileInfo).readonly(), cut: z.boolean() }),
});

export const ReadFile = endpoint('get /v1/sessions/{id}/files/content', filesTag, mayView, {
  summary: 'The bytes of a file, from an offset on',
  query: z.strictObject({
    path,
    offset: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  }),
  gives: ['application/octet-stream'],
});

export const WriteFile = endpoint('put /v1/sessions/{id}/files/content', filesTag, mayUse, {
  summary: 'Write a file of any size; the folders on the way are made',
  audit: 'file.write',
  query: z.strictObject({ path }),
  takes: 'application/octet-stream',
  result: FileInfo,
});

export const MakeFolder = endpoint('post /v1/sessions/{id}/files/folders', filesTag, mayUse, {
  summary: 'Make a folder',
  audit: 'file.make-folder',
  body: z.strictObject({ path }),
});

export const MoveFile = endpoint('post /v1/sessions/{id}/files/move', filesTag, mayUse, {
  summary: 'Move or rename a file or folder',
  audit: 'file.move',
  body: z.strictObject({ from: path, to: path, replace: z.boolean().optional() }),
  result: FileInfo,
});

export const DeleteFile = endpoint('delete /v1/sessions/{id}/files', filesTag, mayUse, {
  summary: 'Delete a file or a folder',
  audit: 'file.delete',
  query: z.strictObject({ path, recursive: flag }),
});
