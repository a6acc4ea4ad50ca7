/** Routes of tools, skills, artifacts and packages, of a user and of a session, and of the files of the workspace. */

import { z } from 'zod';
import {
  ArtifactInfo,
  ArtifactType,
  DepsLine,
  DepsResult,
  DepsStatus,
  NewSkill,
  Skill,
  SkillInfo,
  SkillProblem,
  ToolInfo,
  ToolProblem,
} from '../namespace-models.ts';
import { boundedList } from '../parse.ts';
import { SessionId } from '../session-info.ts';
import { FileChange, FileInfo } from '../workspace-models.ts';
import { queryInt, route, routesOfSession, session, user } from './route.ts';

const name = z.string().min(1).max(200);
const NameParams = z.object({ name });
const PageQuery = z.strictObject({
  limit: queryInt().min(1).max(1000).optional().meta({ description: 'The maximum number of items; default: 1000.' }),
  after: z.string().max(200).optional().meta({ description: '`next` of the previous page.' }),
});
const Search = PageQuery.extend({
  q: z
    .string()
    .max(1000)
    .optional()
    .meta({ description: 'A search: returns the 20 best matches, or `limit` up to 100, instead of a list.' }),
});
/** The start of the next page; undefined on the last page. */
const next = z
  .string()
  .optional()
  .meta({ description: 'The value of `after` for the next page; absent on the last page.' });

const path = z.string().max(4096).meta({ description: 'Relative to the workspace.' });
const flag = z.enum(['true', 'false']).default('false');

/* Routes for what belongs to a user. Each session has the same routes below its path. */

export const toolRoutes = {
  listTools: route('GET /v1/tools', 'Tools', {
    auth: user('use'),
    summary: 'List or search the tools that code can call',
    query: Search,
    response: z.object({ tools: z.array(ToolInfo).readonly(), next }),
  }),

  listToolProblems: route('GET /v1/tool-problems', 'Tools', {
    auth: user('use'),
    summary: 'List invalid tool definitions, with the reasons',
    response: z.object({ problems: z.array(ToolProblem).readonly() }),
  }),

  /** Only for administrators, because a definition can name programs of the server's machine. */
  createTool: route('POST /v1/tools', 'Tools', {
    auth: user('admin'),
    summary: 'Check and store a tool definition in YAML; for administrators',
    audit: 'tool.create',
    body: z.strictObject({
      yaml: z.string().max(1_000_000),
      replace: z.boolean().optional(),
      where: z.string().max(1000).optional().meta({ description: 'How error messages name this definition.' }),
    }),
    response: ToolInfo,
    status: 201,
  }),

  deleteTool: route('DELETE /v1/tools/{name}', 'Tools', {
    auth: user('admin'),
    summary: 'Delete a tool definition from the storage; for administrators',
    audit: 'tool.delete',
    params: NameParams,
  }),

  getTool: route('GET /v1/tools/{name}', 'Tools', {
    auth: user('use'),
    summary: 'Get a tool with its parameters and recipes',
    params: NameParams,
    response: ToolInfo,
  }),
};

export const skillRoutes = {
  listSkills: route('GET /v1/skills', 'Skills', {
    auth: user('use'),
    summary: 'List or search the skills that code can use',
    query: Search,
    response: z.object({ skills: z.array(SkillInfo).readonly(), next }),
  }),

  listSkillProblems: route('GET /v1/skill-problems', 'Skills', {
    auth: user('use'),
    summary: 'List files that are not valid skills, with the reasons',
    response: z.object({ problems: z.array(SkillProblem).readonly() }),
  }),

  getSkill: route('GET /v1/skills/{name}', 'Skills', {
    auth: user('use'),
    summary: 'Get a skill with its source',
    params: NameParams,
    response: Skill,
  }),

  createSkill: route('POST /v1/skills', 'Skills', {
    auth: user('use'),
    summary: 'Create a skill from Python source; the source is checked, not run',
    audit: 'skill.create',
    body: NewSkill.extend({ replace: z.boolean().optional() }),
    response: SkillInfo,
    status: 201,
  }),

  deleteSkill: route('DELETE /v1/skills/{name}', 'Skills', {
    auth: user('use'),
    summary: 'Delete a skill',
    audit: 'skill.delete',
    params: NameParams,
  }),
};

export const artifactRoutes = {
  listArtifacts: route('GET /v1/artifacts', 'Artifacts', {
    auth: user('use'),
    summary: 'List artifacts, sorted by name',
    query: PageQuery,
    response: z.object({ artifacts: z.array(ArtifactInfo).readonly(), next }),
  }),

  getArtifact: route('GET /v1/artifacts/{name}', 'Artifacts', {
    auth: user('use'),
    summary: 'Get the metadata of an artifact',
    params: NameParams,
    response: ArtifactInfo,
  }),

  loadArtifact: route('GET /v1/artifacts/{name}/content', 'Artifacts', {
    auth: user('use'),
    summary: 'Download an artifact',
    params: NameParams,
    produces: ['application/octet-stream'],
  }),

  saveArtifact: route('PUT /v1/artifacts/{name}/content', 'Artifacts', {
    auth: user('use'),
    summary: 'Save an artifact of any size',
    audit: 'artifact.save',
    params: NameParams,
    query: z.strictObject({
      type: ArtifactType.default('bytes'),
      mediaType: z.string().min(1).max(255).default('application/octet-stream'),
      description: z.string().max(10_000).optional(),
      metadata: z.string().max(16_000).optional().meta({ description: 'A JSON object as text.' }),
    }),
    consumes: 'application/octet-stream',
    response: ArtifactInfo,
  }),

  deleteArtifact: route('DELETE /v1/artifacts/{name}', 'Artifacts', {
    auth: user('use'),
    summary: 'Delete an artifact',
    audit: 'artifact.delete',
    params: NameParams,
  }),
};

export const depsRoutes = {
  listDeps: route('GET /v1/deps', 'Packages', {
    auth: user('view'),
    summary: 'List the configured packages',
    response: z.object({ deps: z.array(z.string()).readonly() }),
  }),

  getDepsStatus: route('GET /v1/deps/status', 'Packages', {
    auth: user('use'),
    summary: 'Get whether the configured packages are installed for the Python of the kernels; installs nothing',
    response: DepsStatus,
  }),

  addDeps: route('POST /v1/deps', 'Packages', {
    auth: user('use'),
    summary: 'Install packages; refused if packages are locked',
    audit: 'deps.add',
    body: z.strictObject({ requirements: boundedList(z.array(z.string().max(500)).min(1).max(100), 100) }),
    response: DepsResult,
    stream: DepsLine,
  }),

  removeDep: route('DELETE /v1/deps/{name}', 'Packages', {
    auth: user('use'),
    summary: 'Remove a package; refused if packages are locked',
    audit: 'deps.remove',
    params: NameParams,
    response: DepsResult,
    stream: DepsLine,
  }),

  syncDeps: route('POST /v1/deps/sync', 'Packages', {
    auth: user('use'),
    summary: 'Install configured packages that are missing',
    audit: 'deps.sync',
    response: DepsResult,
    stream: DepsLine,
  }),
};

export const userNamespaceRoutes = { ...toolRoutes, ...skillRoutes, ...artifactRoutes, ...depsRoutes };
export const sessionNamespaceRoutes = routesOfSession(userNamespaceRoutes);

/** A call needs the sandbox, the workspace and the permission rules of a session. */
export const toolCallRoutes = {
  callTool: route('POST /v1/sessions/{id}/tools/{name}/call', 'Tools', {
    auth: session('use'),
    summary: 'Call a tool as code would; values have the same form as in results',
    audit: 'tool.call',
    params: z.object({ id: SessionId, name }),
    body: z.strictObject({
      recipe: z.string().max(200).optional(),
      positional: z.array(z.unknown()).max(1000).optional(),
      named: z.record(z.string(), z.unknown()).optional(),
      approved: z.boolean().optional().meta({ description: 'You approve the call, if the tool requires approval.' }),
    }),
    response: z.object({ value: z.unknown() }),
  }),
};

export const fileRoutes = {
  watchFiles: route('GET /v1/sessions/{id}/files/watch', 'Files', {
    auth: session('view'),
    summary: 'Watch a folder: a stream of changes as NDJSON or server-sent events, by Accept',
    query: z.strictObject({ path: path.default('') }),
    whileDraining: false,
    stream: FileChange,
  }),

  listFiles: route('GET /v1/sessions/{id}/files', 'Files', {
    auth: session('view'),
    summary:
      'List a folder of the workspace, sorted by name: at most 10,000 files and 2 MiB of names; `cut` is true if there are more',
    query: z.strictObject({ path: path.default('') }),
    response: z.object({ files: z.array(FileInfo).readonly(), cut: z.boolean() }),
  }),

  readFile: route('GET /v1/sessions/{id}/files/content', 'Files', {
    auth: session('view'),
    summary: 'Read a file, from an offset',
    query: z.strictObject({ path, offset: queryInt().min(0).max(Number.MAX_SAFE_INTEGER).default(0) }),
    produces: ['application/octet-stream'],
  }),

  writeFile: route('PUT /v1/sessions/{id}/files/content', 'Files', {
    auth: session('use'),
    summary: 'Write a file of any size; missing folders are created',
    audit: 'file.write',
    query: z.strictObject({ path }),
    consumes: 'application/octet-stream',
    response: FileInfo,
  }),

  makeFolder: route('POST /v1/sessions/{id}/files/folders', 'Files', {
    auth: session('use'),
    summary: 'Create a folder',
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
