/** The MCP tools for the namespaces: Python packages, skills and tools. */

import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import {
  type DepsResult,
  type SkillInfo,
  type ToolInfo,
  writeParameters,
  writeSkillParameters,
} from '../../protocol/namespace-models.ts';
import type { SessionApi, WorkOptions } from '../../session/api.ts';
import type { McpBackend } from '../mcp-backend.ts';
import { CallProgress } from './run-code.ts';
import {
  AgentKeyArgument,
  asToolResult,
  firstEntries,
  Limit,
  listResult,
  READ_ONLY,
  SearchQuery,
  type ToolContext,
  textResult,
  truncateDescription,
} from './tool-context.ts';

const DepsChange = z.object({
  installed: z.array(z.string()),
  failed: z.array(z.object({ requirement: z.string(), reason: z.string() })),
  removed: z.array(z.string()).optional(),
  note: z.string().optional(),
});

export function registerDeps(context: ToolContext): void {
  const { server, backend } = context;
  server.registerTool(
    'list_deps',
    {
      title: 'List packages',
      description: 'List the Python packages that are configured for the kernels.',
      inputSchema: z.strictObject({}),
      outputSchema: z.object({ deps: z.array(z.string()) }),
      annotations: READ_ONLY,
    },
    (_none, context) =>
      asToolResult(backend, context, async () => {
        const deps = [...(await (await backend.namespaces()).deps.list())];
        return listResult(deps, 'No packages are configured.', { deps });
      }),
  );
  if (backend.canChangeDeps) registerDepsChanges(context);
}

function registerDepsChanges({ server, backend }: ToolContext): void {
  server.registerTool(
    'add_dep',
    {
      title: 'Add a package',
      description:
        'Install a Python package for all kernels, now and in the future. Code can import it at once. The result lists what could not be installed, with the reason.',
      inputSchema: z.strictObject({
        requirement: z
          .string()
          .min(1)
          .max(1000)
          .describe('The name of a package, with versions if needed: pandas>=2.0.'),
        agent_key: AgentKeyArgument,
      }),
      outputSchema: DepsChange,
      annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    },
    ({ requirement, agent_key }, context) =>
      changeDeps(backend, agent_key, context, (session, options) => session.deps.add(requirement, options)),
  );
  server.registerTool(
    'remove_dep',
    {
      title: 'Remove a package',
      description:
        'Remove a Python package for all kernels. A kernel that has imported it can use it until it restarts.',
      inputSchema: z.strictObject({ name: z.string().min(1).max(200), agent_key: AgentKeyArgument }),
      outputSchema: DepsChange,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    },
    ({ name, agent_key }, context) =>
      changeDeps(backend, agent_key, context, (session, options) => session.deps.remove(name, options)),
  );
}

function changeDeps(
  backend: McpBackend,
  agentKey: string | undefined,
  context: ServerContext,
  work: (session: SessionApi, options: WorkOptions) => Promise<DepsResult>,
): Promise<CallToolResult> {
  return asToolResult(backend, context, async () => {
    using progress = new CallProgress(context);
    const { signal } = context.mcpReq;
    const session = await backend.session(agentKey, signal);
    using _held = { [Symbol.dispose]: () => backend.release(agentKey) };
    const done = await work(session, { signal, onProgress: (text) => progress.report(`${text}\n`) });
    const result = DepsChange.parse(done);
    const now = await syncRunningKernel(backend, agentKey, session, signal);
    const lines = [
      ...result.installed.map((name) => `Installed ${name}.`),
      ...(result.removed ?? []).map((name) => `Removed ${name}.`),
      ...result.failed.map(({ requirement, reason }) => `Failed: ${requirement}: ${reason}`),
      ...(result.note === undefined ? [] : [result.note]),
      ...(now ? [] : ['The kernel is busy: call deps.sync() in its code to use the change.']),
    ];
    const summary = listResult(lines, 'Nothing changed.', result);
    return result.failed.length > 0 ? { ...summary, isError: true } : summary;
  });
}

/** Gives an idle kernel the new packages; leaves a busy one alone. */
async function syncRunningKernel(
  backend: McpBackend,
  agentKey: string | undefined,
  session: SessionApi,
  signal: AbortSignal,
): Promise<boolean> {
  if (!backend.queue(agentKey).idle) return false;
  return (await session.run('deps.sync();', { signal, timeoutMs: 60_000 })).status === 'ok';
}

const Skill = z.object({ call: z.string(), description: z.string() });
const Skills = z.object({ skills: z.array(Skill), problems: z.array(z.string()).optional() });
const Name = z.string().min(1).max(200).describe('A Python name, such as monthly_report.');

export function registerSkills({ server, backend }: ToolContext): void {
  const skills = async () => (await backend.namespaces()).skills;
  server.registerTool(
    'list_skills',
    {
      title: 'List skills',
      description: 'List the stored skills. Code in run_code calls them as skills.NAME(...).',
      inputSchema: z.strictObject({}),
      outputSchema: Skills,
      annotations: READ_ONLY,
    },
    (_none, context) =>
      asToolResult(backend, context, async () => {
        const api = await skills();
        const [all, broken] = await Promise.all([api.list(), api.problems()]);
        const problems = firstEntries(broken.values().map(({ name, reason }) => `${name}: ${reason}`));
        const summaries = firstEntries(all.values().map(toSkillSummary));
        const lines = [
          ...summaries.map(toLine),
          ...moreLine(all.length - summaries.length, 'skills', 'search_skills'),
          ...problems.map((problem) => `[cannot be used] ${problem}`),
        ];
        return listResult(lines, 'There are no skills.', { skills: summaries, problems });
      }),
  );
  server.registerTool(
    'search_skills',
    {
      title: 'Search skills',
      description: 'Find skills by what they do, best match first. Search before you write code for a common task.',
      inputSchema: z.strictObject({ query: SearchQuery, limit: Limit }),
      outputSchema: Skills,
      annotations: READ_ONLY,
    },
    ({ query, limit }, context) =>
      asToolResult(backend, context, async () => {
        const found = firstEntries((await (await skills()).search(query, { limit })).values().map(toSkillSummary));
        return listResult(found.map(toLine), 'No skill matches.', { skills: found });
      }),
  );
  server.registerTool(
    'create_skill',
    {
      title: 'Create a skill',
      description:
        'Store Python code as a skill, for this and other sessions. The source must define `async def run(...)`, and may use tools, skills, artifacts and deps. It is checked, but not run.',
      inputSchema: z.strictObject({
        name: Name,
        source: z.string().min(1).max(262_144).describe('Python source with `async def run(...)`.'),
        description: z
          .string()
          .max(4000)
          .optional()
          .describe('What the skill is for, in words that someone would search for.'),
        replace: z.boolean().default(false).describe('Whether to replace an existing skill with this name.'),
      }),
      outputSchema: Skill,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
    },
    ({ name, source, description, replace }, context) =>
      asToolResult(backend, context, async () => {
        const skill = { name, source, description };
        const created = toSkillSummary(await (await skills()).create(skill, { replace }));
        return textResult(`Created ${toLine(created)}`, { structuredContent: created });
      }),
  );
  server.registerTool(
    'delete_skill',
    {
      title: 'Delete a skill',
      description: 'Delete a stored skill, for this and other sessions.',
      inputSchema: z.strictObject({ name: Name }),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ name }, context) =>
      asToolResult(backend, context, async () => {
        await (await skills()).delete(name);
        return textResult(`Deleted the skill ${name}.`);
      }),
  );
}

/** No line if the list is complete. */
function moreLine(count: number, what: string, search: string): string[] {
  return count === 0 ? [] : [`[${count} more ${what} are not shown: use ${search}]`];
}

type SkillSummary = z.infer<typeof Skill>;

function toSkillSummary({ name, description, parameters }: SkillInfo): SkillSummary {
  return { call: `skills.${name}(${writeSkillParameters(parameters)})`, description: truncateDescription(description) };
}

function toLine({ call, description }: SkillSummary): string {
  return description === '' ? call : `${call}: ${description}`;
}

const Tools = z.object({
  tools: z.array(
    z.object({
      call: z.string(),
      description: z.string(),
      kind: z.string(),
      requires_approval: z.boolean(),
      recipes: z.array(z.object({ call: z.string(), description: z.string() })),
    }),
  ),
  problems: z.array(z.string()).optional(),
});

const CALL_HINT = 'Call them in the code of run_code, as tools.NAME(...). They are not MCP tools of this server.';

export function registerTools({ server, backend }: ToolContext): void {
  server.registerTool(
    'list_tools',
    {
      title: 'List tools for code',
      description: `List the tools that code can call, with their arguments. ${CALL_HINT}`,
      inputSchema: z.strictObject({}),
      outputSchema: Tools,
      annotations: READ_ONLY,
    },
    (_none, context) =>
      asToolResult(backend, context, async () => {
        const { tools } = await backend.namespaces();
        const [all, broken] = await Promise.all([tools.list(), tools.problems()]);
        const problems = firstEntries(broken.values().map(({ message }) => message));
        const summaries = firstEntries(all.values().map(toToolSummary));
        const lines = [
          ...summaries.flatMap(toLines),
          ...moreLine(all.length - summaries.length, 'tools', 'search_tools'),
          ...problems.map((problem) => `[cannot be used] ${problem}`),
        ];
        return listResult(lines, 'There are no tools.', { tools: summaries, problems });
      }),
  );
  server.registerTool(
    'search_tools',
    {
      title: 'Search tools for code',
      description: `Find tools that code can call by what they do, best match first. ${CALL_HINT}`,
      inputSchema: z.strictObject({ query: SearchQuery, limit: Limit }),
      outputSchema: Tools,
      annotations: READ_ONLY,
    },
    ({ query, limit }, context) =>
      asToolResult(backend, context, async () => {
        const { tools } = await backend.namespaces();
        const found = firstEntries((await tools.search(query, { limit })).values().map(toToolSummary));
        return listResult(found.flatMap(toLines), 'No tool matches.', { tools: found });
      }),
  );
}

type ToolSummary = z.infer<typeof Tools>['tools'][number];

function toToolSummary({ name, description, kind, requires_approval, parameters, recipes }: ToolInfo): ToolSummary {
  return {
    call: `tools.${name}(${writeParameters(parameters, { types: true })})`,
    description: truncateDescription(description),
    kind,
    requires_approval,
    recipes: recipes.map((recipe) => ({
      call: `tools.${name}.${recipe.name}(${writeParameters(recipe.parameters, { types: true })})`,
      description: truncateDescription(recipe.description),
    })),
  };
}

function toLines({ call, description, requires_approval, recipes }: ToolSummary): string[] {
  const asks = requires_approval ? ' [each call requires approval]' : '';
  const line = (code: string, about: string) => (about === '' ? code : `${code}: ${about}`);
  return [
    `${line(call, description)}${asks}`,
    ...recipes.map((recipe) => `  ${line(recipe.call, recipe.description)}`),
  ];
}
