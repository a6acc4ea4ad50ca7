/** Routes of tools, skills, artifacts, packages and the files of the workspace. */

import { z } from 'zod';
import {
  ArtifactInfo,
  ArtifactType,
  DepsLine,
  DepsResult,
  NamespaceName,
  SkillInfo,
  SkillProblemList,
  ToolInfo,
  ToolProblemList,
} from '../namespace-models.ts';
import { SessionId } from '../session-info.ts';
import { FileChange, FileInfo } from '../workspace-models.ts';
import { queryInt, route, session, user } from './route.ts';

const name = z.string().min(1).max(200);
const NameParams = z.object({ id: SessionId, name });
const PageQuery = z.strictObject({
  limit: queryInt().min(1).max(1000).optional().meta({ description: 'At most so many, 1000 if not said.' }),
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
const next = z.string().optional().meta({ description: 'Where to go on, by `after`; not there on the last page.' });

const path = z.string().max(4096).meta({ description: 'Relative to the workspace.' });
const flag = z.enum(['true', 'false']).default('false');

export const toolRoutes = {
  listTools: route('GET /v1/sessions/{id}/tools', 'Tools', {
    auth: session('use'),
    summary: 'The tools that the code can call, or those that fit a search',
    query: Search,
    response: z.object({ tools: z.array(ToolInfo).readonly(), next }),
  }),

  listToolProblems: route('GET /v1/sessions/{id}/tool-problems', 'Tools', {
    auth: session('use'),
    summary: 'Definitions of tools that cannot be used, and why',
    response: z.object({ problems: ToolProblemList }),
  }),

  /** A definition may name programs of the server's machine: it is for administrators. */
  addTool: route('POST /v1/sessions/{id}/tools', 'Tools', {
    auth: session('use', { scope: 'admin' }),
    summary: 'Check a definition in YAML and keep it, for administrators',
    audit: 'tool.add',
    body: z.strictObject({
      yaml: z.string().max(1_000_000),
      replace: z.boolean().optional(),
      where: z.string().max(1000).optional().meta({ description: 'What a message about a wrong one calls it.' }),
    }),
    response: ToolInfo,
    status: 201,
  }),

  removeTool: route('DELETE /v1/sessions/{id}/tools/{name}', 'Tools', {
    auth: session('use', { scope: 'admin' }),
    summary: 'Take a definition out of storage, for administrators',
    audit: 'tool.remove',
    params: NameParams,
    response: z.object({ removed: z.boolean() }),
  }),

  getTool: route('GET /v1/sessions/{id}/tools/{name}', 'Tools', {
    auth: session('use'),
    summary: 'A tool, with its parameters and recipes',
    params: NameParams,
    response: ToolInfo,
  }),

  callTool: route('POST /v1/sessions/{id}/tools/{name}/call', 'Tools', {
    auth: session('use'),
    summary: 'Call a tool as the code would; values are written as in results',
    audit: 'tool.call',
    params: NameParams,
    body: z.strictObject({
      recipe: z.string().max(200).optional(),
      positional: z.array(z.unknown()).max(1000).optional(),
      named: z.record(z.string(), z.unknown()).optional(),
      approved: z.boolean().optional().meta({ description: 'You allow it where it requires approval.' }),
    }),
    response: z.object({ value: z.unknown() }),
  }),
};

export const skillRoutes = {
  listSkills: route('GET /v1/sessions/{id}/skills', 'Skills', {
    auth: session('use'),
    summary: 'The skills that the code can use, or those that fit a search',
    query: Search,
    response: z.object({ skills: z.array(SkillInfo).readonly(), next }),
  }),

  listSkillProblems: route('GET /v1/sessions/{id}/skill-problems', 'Skills', {
    auth: session('use'),
    summary: 'Files that are no skills, and why',
    response: z.object({ problems: SkillProblemList }),
  }),

  getSkill: route('GET /v1/sessions/{id}/skills/{name}', 'Skills', {
    auth: session('use'),
    summary: 'A skill with its source',
    params: NameParams,
    response: SkillInfo,
  }),

  createSkill: route('POST /v1/sessions/{id}/skills', 'Skills', {
    auth: session('use'),
    summary: 'Keep Python source as a skill; it is read, and not run',
    audit: 'skill.create',
    body: z.strictObject({
      name,
      source: z.string().max(1_000_000),
      description: z.string().max(4000).optional(),
      replace: z.boolean().optional(),
    }),
    response: SkillInfo,
    status: 201,
  }),

  deleteSkill: route('DELETE /v1/sessions/{id}/skills/{name}', 'Skills', {
    auth: session('use'),
    summary: 'Delete a skill',
    audit: 'skill.delete',
    params: NameParams,
  }),
};

export const artifactRoutes = {
  listArtifacts: route('GET /v1/sessions/{id}/artifacts', 'Artifacts', {
    auth: session('use'),
    summary: 'What the code has kept, by name',
    query: PageQuery,
    response: z.object({ artifacts: z.array(ArtifactInfo).readonly(), next }),
  }),

  getArtifact: route('GET /v1/sessions/{id}/artifacts/{name}', 'Artifacts', {
    auth: session('use'),
    summary: 'What is known of an artifact',
    params: NameParams,
    response: ArtifactInfo,
  }),

  loadArtifact: route('GET /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', {
    auth: session('use'),
    summary: 'The bytes of an artifact',
    params: NameParams,
    produces: ['application/octet-stream'],
  }),

  saveArtifact: route('PUT /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', {
    auth: session('use'),
    summary: 'Keep bytes of any size as an artifact',
    audit: 'artifact.save',
    params: NameParams,
    query: z.strictObject({
      type: ArtifactType.default('bytes'),
      mediaType: z.string().min(1).max(255).default('application/octet-stream'),
      description: z.string().max(10_000).optional(),
      metadata: z.string().max(16_000).optional().meta({ description: 'A JSON object, as text.' }),
    }),
    consumes: 'application/octet-stream',
    response: ArtifactInfo,
  }),

  deleteArtifact: route('DELETE /v1/sessions/{id}/artifacts/{name}', 'Artifacts', {
    auth: session('use'),
    summary: 'Delete an artifact',
    audit: 'artifact.delete',
    params: NameParams,
  }),
};

export const depsRoutes = {
  listDeps: route('GET /v1/sessions/{id}/deps', 'Packages', {
    auth: session('view'),
    summary: 'The packages that the code is to have',
    response: z.object({ deps: z.array(z.string()).readonly() }),
  }),

  getDepsStatus: route('GET /v1/sessions/{id}/deps/status', 'Packages', {
    auth: session('use'),
    summary: 'Whether what is configured is installed for the Python of the session; asking installs nothing',
    response: z.object({ requirements: z.array(z.string()).readonly(), python: z.string(), installed: z.boolean() }),
  }),

  addDeps: route('POST /v1/sessions/{id}/deps', 'Packages', {
    auth: session('use'),
    summary: 'Install packages; refused where they are locked',
    audit: 'deps.add',
    body: z.strictObject({ requirements: z.array(z.string().max(500)).min(1).max(100) }),
    response: DepsResult,
    stream: DepsLine,
  }),

  removeDep: route('DELETE /v1/sessions/{id}/deps/{name}', 'Packages', {
    auth: session('use'),
    summary: 'Remove a package; refused where they are locked',
    audit: 'deps.remove',
    params: NameParams,
    response: DepsResult,
    stream: DepsLine,
  }),

  syncDeps: route('POST /v1/sessions/{id}/deps/sync', 'Packages', {
    auth: session('use'),
    summary: 'Install what is configured and not there',
    audit: 'deps.sync',
    response: DepsResult,
    stream: DepsLine,
  }),
};

export const namespaceRoutes = {
  listNamespaces: route('GET /v1/namespaces', 'Tools', {
    auth: user('use'),
    summary: 'Your tools, skills, artifacts and packages, whatever sessions you have',
    query: PageQuery.extend({
      only: NamespaceName.optional().meta({ description: 'Of this kind alone. `after` needs it.' }),
    }),
    response: z.object({
      tools: z.array(ToolInfo).readonly(),
      toolProblems: ToolProblemList,
      skills: z.array(SkillInfo).readonly(),
      skillProblems: SkillProblemList,
      artifacts: z.array(ArtifactInfo).readonly(),
      deps: z.array(z.string()).readonly(),
      next: z
        .object({ tools: next, skills: next, artifacts: next })
        .optional()
        .meta({ description: 'Of each kind that has more: where to go on, by `only` and `after`.' }),
    }),
  }),
};

export const fileRoutes = {
  watchFiles: route('GET /v1/sessions/{id}/files/watch', 'Files', {
    auth: session('view'),
    summary:
      'What is created, changed and deleted below a folder, as it happens: NDJSON, or server-sent events by Accept',
    query: z.strictObject({ path: path.default('') }),
    whileDraining: false,
    stream: FileChange,
  }),

  listFiles: route('GET /v1/sessions/{id}/files', 'Files', {
    auth: session('view'),
    summary:
      'What is in a folder of the workspace, by name: up to 10,000 files, or 2 MiB of names; `cut` where there are more',
    query: z.strictObject({ path: path.default('') }),
    response: z.object({ files: z.array(FileInfo).readonly(), cut: z.boolean() }),
  }),

  readFile: route('GET /v1/sessions/{id}/files/content', 'Files', {
    auth: session('view'),
    summary: 'The bytes of a file, from an offset on',
    query: z.strictObject({
      path,
      offset: queryInt().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
    }),
    produces: ['application/octet-stream'],
  }),

  writeFile: route('PUT /v1/sessions/{id}/files/content', 'Files', {
    auth: session('use'),
    summary: 'Write a file of any size; the folders on the way are made',
    audit: 'file.write',
    query: z.strictObject({ path }),
    consumes: 'application/octet-stream',
    response: FileInfo,
  }),

  makeFolder: route('POST /v1/sessions/{id}/files/folders', 'Files', {
    auth: session('use'),
    summary: 'Make a folder',
    audit: 'file.make-folder',
    body: z.strictObject({ path }),
  }),

  moveFile: route('POST /v1/sessions/{id}/files/move', 'Files', {
    auth: session('use'),
    summary: 'Move or rename a file or folder',
    audit: 'file.move',
    body: z.strictObject({ from: path, to: path, replace: z.boolean().optional() }),
    response: FileInfo,
  }),

  deleteFile: route('DELETE /v1/sessions/{id}/files', 'Files', {
    auth: session('use'),
    summary: 'Delete a file or a folder',
    audit: 'file.delete',
    query: z.strictObject({ path, recursive: flag }),
  }),
};
