/** The routes of tools, skills, artifacts and packages: the same things that the code of a session can use. */

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
import { anyUser, endpoint, mayUse, mayView } from './endpoint.ts';

export { DepsLine, type ThingKind } from '../namespace-models.ts';

const name = z.string().min(1).max(200);
const Named = z.object({ id: SessionId, name });
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

export const ListTools = endpoint('get /v1/sessions/{id}/tools', 'Tools', mayUse, {
  summary: 'The tools that the code can call, or those that fit a search',
  query: Search,
  result: z.object({ tools: z.array(ToolInfo).readonly(), next }),
});

export const ToolProblems = endpoint('get /v1/sessions/{id}/tool-problems', 'Tools', mayUse, {
  summary: 'Definitions of tools that cannot be used, and why',
  result: z.object({ problems: ToolProblemList }),
});

/** A definition may name programs of the server's machine: it is for administrators. */
export const AddTool = endpoint('post /v1/sessions/{id}/tools', 'Tools', mayUse, {
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

export const RemoveTool = endpoint('delete /v1/sessions/{id}/tools/{name}', 'Tools', mayUse, {
  summary: 'Take a definition out of storage, for administrators',
  audit: 'tool.remove',
  params: Named,
  result: z.object({ removed: z.boolean() }),
});

export const GetTool = endpoint('get /v1/sessions/{id}/tools/{name}', 'Tools', mayUse, {
  summary: 'A tool, with its parameters and recipes',
  params: Named,
  result: ToolInfo,
});

export const CallTool = endpoint('post /v1/sessions/{id}/tools/{name}/call', 'Tools', mayUse, {
  summary: 'Call a tool as the code would; values are written as in results',
  audit: 'tool.call',
  params: Named,
  body: z.strictObject({
    recipe: z.string().max(200).optional(),
    positional: z.array(z.unknown()).max(1000).optional(),
    named: z.record(z.string(), z.unknown()).optional(),
    approved: z.boolean().optional().meta({ description: 'You allow it where it requires approval.' }),
  }),
  result: z.object({ value: z.unknown() }),
});

export const ListSkills = endpoint('get /v1/sessions/{id}/skills', 'Skills', mayUse, {
  summary: 'The skills that the code can use, or those that fit a search',
  query: Search,
  result: z.object({ skills: z.array(SkillInfo).readonly(), next }),
});

export const SkillProblems = endpoint('get /v1/sessions/{id}/skill-problems', 'Skills', mayUse, {
  summary: 'Files that are no skills, and why',
  result: z.object({ problems: SkillProblemList }),
});

export const GetSkill = endpoint('get /v1/sessions/{id}/skills/{name}', 'Skills', mayUse, {
  summary: 'A skill with its source',
  params: Named,
  result: SkillInfo,
});

export const CreateSkill = endpoint('post /v1/sessions/{id}/skills', 'Skills', mayUse, {
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

export const DeleteSkill = endpoint('delete /v1/sessions/{id}/skills/{name}', 'Skills', mayUse, {
  summary: 'Delete a skill',
  audit: 'skill.delete',
  params: Named,
});

export const ListArtifacts = endpoint('get /v1/sessions/{id}/artifacts', 'Artifacts', mayUse, {
  summary: 'What the code has kept, by name',
  query: PageQuery,
  result: z.object({ artifacts: z.array(ArtifactInfo).readonly(), next }),
});

export const GetArtifact = endpoint('get /v1/sessions/{id}/artifacts/{name}', 'Artifacts', mayUse, {
  summary: 'What is known of an artifact',
  params: Named,
  result: ArtifactInfo,
});

export const LoadArtifact = endpoint('get /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', mayUse, {
  summary: 'The bytes of an artifact',
  params: Named,
  gives: ['application/octet-stream'],
});

export const SaveArtifact = endpoint('put /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', mayUse, {
  summary: 'Keep bytes of any size as an artifact',
  audit: 'artifact.save',
  params: Named,
  query: z.strictObject({
    type: ArtifactType.default('bytes'),
    mediaType: z.string().min(1).max(255).default('application/octet-stream'),
    description: z.string().max(10_000).optional(),
    metadata: z.string().max(16_000).optional().meta({ description: 'A JSON object, as text.' }),
  }),
  takes: 'application/octet-stream',
  result: ArtifactInfo,
});

export const DeleteArtifact = endpoint('delete /v1/sessions/{id}/artifacts/{name}', 'Artifacts', mayUse, {
  summary: 'Delete an artifact',
  audit: 'artifact.delete',
  params: Named,
});

export const ListDeps = endpoint('get /v1/sessions/{id}/deps', 'Packages', mayView, {
  summary: 'The packages that the code is to have',
  result: z.object({ deps: z.array(z.string()).readonly() }),
});

export const DepsStatus = endpoint('get /v1/sessions/{id}/deps/status', 'Packages', mayUse, {
  summary: 'Whether what is configured is installed for the Python of the session; asking installs nothing',
  result: z.object({ requirements: z.array(z.string()).readonly(), python: z.string(), installed: z.boolean() }),
});

export const AddDeps = endpoint('post /v1/sessions/{id}/deps', 'Packages', mayUse, {
  summary: 'Install packages; refused where they are locked',
  audit: 'deps.add',
  body: z.strictObject({ requirements: z.array(z.string().max(500)).min(1).max(100) }),
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const RemoveDep = endpoint('delete /v1/sessions/{id}/deps/{name}', 'Packages', mayUse, {
  summary: 'Remove a package; refused where they are locked',
  audit: 'deps.remove',
  params: Named,
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const SyncDeps = endpoint('post /v1/sessions/{id}/deps/sync', 'Packages', mayUse, {
  summary: 'Install what is configured and not there',
  audit: 'deps.sync',
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const ListThings = endpoint('get /v1/things', 'Tools', anyUser, {
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
