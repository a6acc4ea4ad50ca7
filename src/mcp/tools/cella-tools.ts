/** The MCP tools that list, search and describe the `tools` namespace. */

import { z } from 'zod';
import type { Parameter } from '../../namespaces/tools/parameters.ts';
import type { ToolInfo } from '../../namespaces/tools/tool-info.ts';
import {
  asToolResult,
  Limit,
  listResult,
  Query,
  READ_ONLY,
  type ToolContext,
  truncateDescription,
} from './tool-context.ts';

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

const CALL_HINT = 'They are called in code that run_code runs, as tools.NAME(...), not as tools of this server.';

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
    () =>
      asToolResult(backend, async () => {
        const { tools } = await backend.namespaces();
        const [all, broken] = await Promise.all([tools.list(), tools.problems()]);
        const problems = broken.map(({ message }) => message);
        const summaries = all.map(toToolSummary);
        const lines = [...summaries.flatMap(toLines), ...problems.map((problem) => `[cannot be used] ${problem}`)];
        return listResult(lines, 'There are no tools.', { tools: summaries, problems });
      }),
  );
  server.registerTool(
    'search_tools',
    {
      title: 'Search tools for code',
      description: `Find tools that code can call by what they do, the best first. ${CALL_HINT}`,
      inputSchema: z.strictObject({ query: Query, limit: Limit }),
      outputSchema: Tools,
      annotations: READ_ONLY,
    },
    ({ query, limit }) =>
      asToolResult(backend, async () => {
        const found = (await (await backend.namespaces()).tools.search(query, { limit })).map(toToolSummary);
        return listResult(found.flatMap(toLines), 'No tool fits.', { tools: found });
      }),
  );
}

type ToolSummary = z.infer<typeof Tools>['tools'][number];

function toToolSummary({ name, description, kind, requires_approval, parameters, recipes }: ToolInfo): ToolSummary {
  return {
    call: `tools.${name}(${signature(parameters)})`,
    description: truncateDescription(description),
    kind,
    requires_approval,
    recipes: recipes.map((recipe) => ({
      call: `tools.${name}.${recipe.name}(${signature(recipe.parameters)})`,
      description: truncateDescription(recipe.description),
    })),
  };
}

function toLines({ call, description, requires_approval, recipes }: ToolSummary): string[] {
  const asks = requires_approval ? ' [a person must approve each call]' : '';
  const line = (code: string, about: string) => (about === '' ? code : `${code}: ${about}`);
  return [
    `${line(call, description)}${asks}`,
    ...recipes.map((recipe) => `  ${line(recipe.call, recipe.description)}`),
  ];
}

function signature(parameters: readonly Parameter[]): string {
  const word = ({ name, type, items, required, default: preset, variadic }: Parameter) => {
    if (variadic) return `*${name}: ${items ?? type}`;
    return `${name}: ${type}${required ? '' : ` = ${toPython(preset)}`}`;
  };
  return parameters.map(word).join(', ');
}

/** As code writes it. */
function toPython(preset: Parameter['default']): string {
  if (preset === undefined || preset === null) return 'None';
  return typeof preset === 'boolean' ? (preset ? 'True' : 'False') : JSON.stringify(preset);
}
