/** The routes of tools, skills, artifacts and packages: the same things that the code of a session can use. */

import { z } from 'zod';
import { ArtifactInfo, ArtifactType } from '../artifact.ts';
import { endpoint } from './endpoint.ts';
import { SessionId } from './sessions.ts';

const view = { kind: 'session', right: 'view' } as const;
const use = { kind: 'session', right: 'use' } as const;

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

/** What a tool takes is described as its kernel sees it. */
const ToolInfo = z
  .looseObject({
    name: z.string(),
    description: z.string(),
    kind: z.enum(['cli', 'mcp', 'http']),
    runs_on: z.enum(['sandbox', 'host']),
    requires_approval: z.boolean(),
  })
  .meta({ id: 'ToolInfo' });

const ToolProblemList = z
  .array(
    z.object({
      where: z.string(),
      line: z.int().exactOptional(),
      name: z.string().exactOptional(),
      message: z.string(),
    }),
  )
  .readonly();

export const ListTools = endpoint('get /v1/sessions/{id}/tools', 'Tools', use, {
  summary: 'The tools that the code can call, or those that fit a search',
  query: Search,
  result: z.object({ tools: z.array(ToolInfo).readonly(), next }),
});

export const ToolProblems = endpoint('get /v1/sessions/{id}/tool-problems', 'Tools', use, {
  summary: 'Definitions of tools that cannot be used, and why',
  result: z.object({ problems: ToolProblemList }),
});

/** A definition may name programs of the server's machine: it is for administrators. */
export const AddTool = endpoint('post /v1/sessions/{id}/tools', 'Tools', use, {
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

export const RemoveTool = endpoint('delete /v1/sessions/{id}/tools/{name}', 'Tools', use, {
  summary: 'Take a definition out of storage, for administrators',
  audit: 'tool.remove',
  params: Named,
  result: z.object({ removed: z.boolean() }),
});

export const GetTool = endpoint('get /v1/sessions/{id}/tools/{name}', 'Tools', use, {
  summary: 'A tool, with its parameters and recipes',
  params: Named,
  result: ToolInfo,
});

export const CallTool = endpoint('post /v1/sessions/{id}/tools/{name}/call', 'Tools', use, {
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

const SkillInfo = z
  .looseObject({
    name: z.string(),
    description: z.string(),
    updatedAt: z.number(),
    shared: z.literal(true).exactOptional().meta({ description: 'Whether it is the operator’s, for all users.' }),
  })
  .meta({ id: 'SkillInfo' });

const SkillProblemList = z
  .array(z.object({ name: z.string(), where: z.string(), line: z.int().optional(), reason: z.string() }))
  .readonly();

export const ListSkills = endpoint('get /v1/sessions/{id}/skills', 'Skills', use, {
  summary: 'The skills that the code can use, or those that fit a search',
  query: Search,
  result: z.object({ skills: z.array(SkillInfo).readonly(), next }),
});

export const SkillProblems = endpoint('get /v1/sessions/{id}/skill-problems', 'Skills', use, {
  summary: 'Files that are no skills, and why',
  result: z.object({ problems: SkillProblemList }),
});

export const GetSkill = endpoint('get /v1/sessions/{id}/skills/{name}', 'Skills', use, {
  summary: 'A skill with its source',
  params: Named,
  result: SkillInfo,
});

export const CreateSkill = endpoint('post /v1/sessions/{id}/skills', 'Skills', use, {
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

export const DeleteSkill = endpoint('delete /v1/sessions/{id}/skills/{name}', 'Skills', use, {
  summary: 'Delete a skill',
  audit: 'skill.delete',
  params: Named,
});

export const ListArtifacts = endpoint('get /v1/sessions/{id}/artifacts', 'Artifacts', use, {
  summary: 'What the code has kept, by name',
  query: PageQuery,
  result: z.object({ artifacts: z.array(ArtifactInfo).readonly(), next }),
});

export const GetArtifact = endpoint('get /v1/sessions/{id}/artifacts/{name}', 'Artifacts', use, {
  summary: 'What is known of an artifact',
  params: Named,
  result: ArtifactInfo,
});

export const LoadArtifact = endpoint('get /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', use, {
  summary: 'The bytes of an artifact',
  params: Named,
  gives: ['application/octet-stream'],
});

export const SaveArtifact = endpoint('put /v1/sessions/{id}/artifacts/{name}/content', 'Artifacts', use, {
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

export const DeleteArtifact = endpoint('delete /v1/sessions/{id}/artifacts/{name}', 'Artifacts', use, {
  summary: 'Delete an artifact',
  audit: 'artifact.delete',
  params: Named,
});

const DepsResult = z
  .object({
    installed: z.array(z.string()).readonly(),
    failed: z.array(z.object({ requirement: z.string(), reason: z.string() })).readonly(),
    removed: z.array(z.string()).readonly().exactOptional(),
    note: z.string().exactOptional(),
  })
  .meta({ id: 'DepsResult' });

/** A change that is streamed: lines on how far it is, and its result as the last. */
export const DepsLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('progress'), text: z.string() }),
  z.object({ type: z.literal('result'), result: DepsResult }),
]);
export type DepsLine = z.infer<typeof DepsLine>;

export const ListDeps = endpoint('get /v1/sessions/{id}/deps', 'Packages', view, {
  summary: 'The packages that the code is to have',
  result: z.object({ deps: z.array(z.string()).readonly() }),
});

export const DepsStatus = endpoint('get /v1/sessions/{id}/deps/status', 'Packages', use, {
  summary: 'Whether what is configured is installed for the Python of the session; asking installs nothing',
  result: z.object({ requirements: z.array(z.string()).readonly(), python: z.string(), installed: z.boolean() }),
});

export const AddDeps = endpoint('post /v1/sessions/{id}/deps', 'Packages', use, {
  summary: 'Install packages; refused where they are locked',
  audit: 'deps.add',
  body: z.strictObject({ requirements: z.array(z.string().max(500)).min(1).max(100) }),
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const RemoveDep = endpoint('delete /v1/sessions/{id}/deps/{name}', 'Packages', use, {
  summary: 'Remove a package; refused where they are locked',
  audit: 'deps.remove',
  params: Named,
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

export const SyncDeps = endpoint('post /v1/sessions/{id}/deps/sync', 'Packages', use, {
  summary: 'Install what is configured and not there',
  audit: 'deps.sync',
  result: DepsResult,
  gives: ['application/x-ndjson'],
});

const ThingKind = z.enum(['tools', 'skills', 'artifacts', 'deps']);
export type ThingKind = z.infer<typeof ThingKind>;

export const ListThings = endpoint(
  'get /v1/things',
  'Tools',
  { kind: 'anybody' },
  {
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
  },
);
