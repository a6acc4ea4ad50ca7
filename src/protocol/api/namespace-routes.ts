/** Routes of tools, skills, artifacts, packages and the files of the workspace. */

import { z } from 'zod';
import {
  ArtifactInfo,
  ArtifactType,
  DepsResult,
  SkillInfo,
  SkillProblemList,
  ThingKind,
  ToolInfo,
  ToolProblemList,
} from '../namespace-models.ts';
import { SessionId } from '../session-info.ts';
import { FileInfo } from '../workspace-models.ts';
import { anyUser, mayUse, mayView, route } from './route.ts';

const name = z.string().min(1).max(200);
const NameParams = z.object({ id: SessionId, name });
const PageQuery = z.strictObject({
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(1000)
    .optional()
    .meta({ description: 'At most so many, 1000 if not said.' }),
  after: z.string().max(200).optional().meta({ description: '`next` of the page before.' }),
});
const Search = PageQuery.extend({
  q: z
    .string()
    .max(1000)
    .optional()
    .meta({ description: 'Finds the best 20, or `limit` up to 100, in place of a list.' }),
});
/** Where the next page begins; not there on the last one. */
const next = z
  .string()
  .exactOptional()
  .meta({ description: 'Where to go on, by `after`; not there on the last page.' });

export const ListTools = route('get /v1/sessions/{id}/tools', 'Tools', mayUse, {
  summary: 'The tools that the code can call, or those that fit a search',
  query: Search,
  result: z.object({ tools: z.array(ToolInfo).readonly(), next }),
});

export const ToolProblems = route('get /v1/sessions/{id}/tool-problems', 'Tools', mayUse, {
  summary: 'Definitions of tools that cannot be used, and why',
  result: z.object({ problems: ToolProblemList }),
});

/** A definition may name programs of the server's machine: it is for administrators. */
export const AddTool = route('post /v1/sessions/{id}/tools', 'Tools', mayUse, {
  summary: 'Check a definition in YAML and keep it, for administrators',
  audit: 'tool.add',
  body: z.strictObject({
    yaml: z.string().max(1_000_000),
    replace: z.boolean().optional(),
    where: z.string().max(1000).optional().meta({ description: 'What a message about a wrong one calls it.' }),
  }),
  result: ToolInfo,
  status: 201,
});

export const RemoveTool = route('delete /v1/sessions/{id}/tools/{name}', 'Tools', mayUse, {
  summary: 'Take a definition out of storage, for administrators',
  audit: 'tool.remove',
  params: NameParams,
  result: z.object({ removed: z.boolean() }),
});

export const GetTool = route('get /v1/sessions/{id}/tools/{name}', 'Tools', mayUse, {
  summary: 'A tool, with its parameters and recipes',
  params: NameParams,
  result: ToolInfo,
});

export const CallTool = route('post /v1/sessions/{id}/tools/{name}/call', 'Tools', mayUse, {
  summary: 'Call a tool as the code would; values are written as in results',
  audit: 'tool.call',
  params: NameParams,
  body: z.strictObject({
    recipe: z.string().max(200).optional(),
    positional: z.array(z.unknown()).max(1000).optional(),
    named: z.record(z.string(), z.unknown()).optional(),
    approved: z.boolean().optional().meta({ description: 'You allow it where it requires approval.' }),
  }),
  result: z.object({ value: z.unknown() }),
});

export const ListSkills = route('get /v1/sessions/{id}/skills', 'Skills', mayUse, {
  summary: 'The skills that the code can use, or those that fit a search',
  query: Search,
  result: z.object({ skills: z.array(SkillInfo).readonly(), next }),
});

export const SkillProblems = route('get /v1/sessions/{id}/skill-problems', 'Skills', mayUse, {
  summary: 'Files that are no skills, and why',
  result: z.object({ problems: SkillProblemList }),
});

export const GetSkill = route('get /v1/sessions/{id}/skills/{name}', 'Skills', mayUse, {
  summary: 'A skill with its source',
  params: NameParams,
  result: SkillInfo,
});

export const CreateSkill = route('post /v1/sessions/{id}/skills', 'Skills', mayUse, {
  summary: 'Keep Python source as a skill; it is read, and not run',
  audit: 'skill.create',
  body: z.strictObject({
    name,
    source: z.string().max(1_000_000),
    description: z.string().max(4000).optional(),
    replace: z.boolean().optional(),
  }),
  result: SkillInfo,
  status: 201,
});

export const DeleteSkill = route('delete /v1/sessions/{id}/skills/{name}', 'Skills', mayUse, {
  summary: 'Delete a skill',
  audit: 'skill.delete',
  params: NameParams,
});

export const ListArtifacts = route('get /v1/sessions/{id}/artifacts', 'Artifacts', mayUse, {
  summary: 'What the code has kept, by name',
  query: PageQuery,
  result: z.object({ artifacts: z.array(ArtifactInfo).readonly(), next }),
});

export const GetArtifact = route('get /v1/sessions/{id}/artifacts/{name}', 'Artifacts', mayUse, {
  summary: 'What is known of an artifact',
  params: NameParams,
  result: ArtifactInfo,
});

export const LoadArtifact = route('get /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', mayUse, {
  summary: 'The bytes of an artifact',
  params: NameParams,
  gives: ['application/octet-stream'],
});

export const SaveArtifact = route('put /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', mayUse, {
  summary: 'Keep bytes of any size as an artifact',
  audit: 'artifact.save',
  params: NameParams,
  query: z.strictObject({
    type: ArtifactType.default('bytes'),
    mediaType: z.string().min(1).max(255).default('application/octet-stream'),
    description: z.string().max(10_000).optional(),
    metadata: z.string().max(16_000).optional().meta({ description: 'A JSON object, as text.' }),
  }),
  takes: 'application/octet-stream',
  result: ArtifactInfo,
});

export const DeleteArtifact = route('delete /v1/sessions/{id}/artifacts/{name}', 'Artifacts', mayUse, {
  summary: 'Delete an artifact',
  audit: 'artifact.delete',
  params: NameParams,
});

export const ListDeps = route('get /v1/sessions/{id}/deps', 'Packages', mayView, {
  summary: 'The packages that the code is to have',
  result: z.object({ deps: z.array(z.string()).readonly() }),
});

export const DepsStatus = route('get /v1/sessions/{id}/deps/status', 'Packages', mayUse, {
  summary: 'Whether what is configured is installed for the Python of the session; asking installs nothing',
  result: z.object({ requirements: z.array(z.string()).readonly(), python: z.string(), installed: z.boolean() }),
});

export const AddDeps = route('post /v1/sessions/{id}/deps', 'Packages', mayUse, {
  summary: 'Install packages; refused where they are locked',
  audit: 'deps.add',
  body: z.strictObject({ requirements: z.array(z.string().max(500)).min(1).max(100) }),
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const RemoveDep = route('delete /v1/sessions/{id}/deps/{name}', 'Packages', mayUse, {
  summary: 'Remove a package; refused where they are locked',
  audit: 'deps.remove',
  params: NameParams,
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const SyncDeps = route('post /v1/sessions/{id}/deps/sync', 'Packages', mayUse, {
  summary: 'Install what is configured and not there',
  audit: 'deps.sync',
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const ListThings = route('get /v1/things', 'Tools', anyUser, {
  summary: 'Your tools, skills, artifacts and packages, whatever sessions you have',
  query: PageQuery.extend({
    only: ThingKind.optional().meta({ description: 'Of this kind alone. `after` needs it.' }),
  }),
  result: z.object({
    tools: z.array(ToolInfo).readonly(),
    toolProblems: ToolProblemList,
    skills: z.array(SkillInfo).readonly(),
    skillProblems: SkillProblemList,
    artifacts: z.array(ArtifactInfo).readonly(),
    deps: z.array(z.string()).readonly(),
    next: z
      .object({ tools: next, skills: next, artifacts: next })
      .exactOptional()
      .meta({ description: 'Of each kind that has more: where to go on, by `only` and `after`.' }),
  }),
});

const filesTag = 'Files';

const path = z.string().max(4096).meta({ description: 'Relative to the workspace.' });
const flag = z.enum(['true', 'false']).default('false');

export const WatchFiles = route('get /v1/sessions/{id}/files/watch', filesTag, mayView, {
  summary:
    'What is created, changed and deleted below a folder, as it happens: NDJSON, or server-sent events by Accept',
  query: z.strictObject({ path: path.default('') }),
  whileStopping: false,
  gives: ['application/x-ndjson', 'text/event-stream'],
});

export const ListFiles = route('get /v1/sessions/{id}/files', filesTag, mayView, {
  summary:
    'What is in a folder of the workspace, by name: up to 10,000 files, or 2 MiB of names; `cut` where there are more',
  query: z.strictObject({ path: path.default('') }),
  result: z.object({ files: z.array(FileInfo).readonly(), cut: z.boolean() }),
});

export const ReadFile = route('get /v1/sessions/{id}/files/content', filesTag, mayView, {
  summary: 'The bytes of a file, from an offset on',
  query: z.strictObject({
    path,
    offset: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  }),
  gives: ['application/octet-stream'],
});

export const WriteFile = route('put /v1/sessions/{id}/files/content', filesTag, mayUse, {
  summary: 'Write a file of any size; the folders on the way are made',
  audit: 'file.write',
  query: z.strictObject({ path }),
  takes: 'application/octet-stream',
  result: FileInfo,
});

export const MakeFolder = route('post /v1/sessions/{id}/files/folders', filesTag, mayUse, {
  summary: 'Make a folder',
  audit: 'file.make-folder',
  body: z.strictObject({ path }),
});

export const MoveFile = route('post /v1/sessions/{id}/files/move', filesTag, mayUse, {
  summary: 'Move or rename a file or folder',
  audit: 'file.move',
  body: z.strictObject({ from: path, to: path, replace: z.boolean().optional() }),
  result: FileInfo,
});

export const DeleteFile = route('delete /v1/sessions/{id}/files', filesTag, mayUse, {
  summary: 'Delete a file or a folder',
  audit: 'file.delete',
  query: z.strictObject({ path, recursive: flag }),
});
