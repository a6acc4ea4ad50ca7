/** list_tools and search_tools: what code in a kernel can call as `tools.NAME(...)`. */

import { z } from 'zod';
import type { Parameter } from '../../namespaces/tools/parameters.ts';
import type { ToolInfo } from '../../namespaces/tools/tool-info.ts';
import { type Bench, brief, guarded, Limit, LOOKS, listing, Query } from './offer.ts';

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

const HOW = 'They are called in code that run_code runs, as tools.NAME(...), not as tools of this server.';

export function offerTools({ server, workshop }: Bench): void {
  server.registerTool(
    'list_tools',
    {
      title: 'List tools for code',
      description: `List the tools that code can call, with their arguments. ${HOW}`,
      inputSchema: z.strictObject({}),
      outputSchema: Tools,
      annotations: LOOKS,
    },
    () =>
      guarded(workshop, async () => {
        const { tools } = await workshop.namespaces();
        const [all, broken] = await Promise.all([tools.list(), tools.problems()]);
        const problems = broken.map(({ message }) => message);
        const told = all.map(tell);
        const lines = [...told.flatMap(toLines), ...problems.map((problem) => `[cannot be used] ${problem}`)];
        return listing(lines, 'There are no tools.', { tools: told, problems });
      }),
  );
  server.registerTool(
    'search_tools',
    {
      title: 'Search tools for code',
      description: `Find tools that code can call by what they do, the best first. ${HOW}`,
      inputSchema: z.strictObject({ query: Query, limit: Limit }),
      outputSchema: Tools,
      annotations: LOOKS,
    },
    ({ query, limit }) =>
      guarded(workshop, async () => {
        const found = (await (await workshop.namespaces()).tools.search(query, { limit })).map(tell);
        return listing(found.flatMap(toLines), 'No tool fits.', { tools: found });
      }),
  );
}

type Told = z.infer<typeof Tools>['tools'][number];

function tell({ name, description, kind, requires_approval, parameters, recipes }: ToolInfo): Told {
  return {
    call: `tools.${name}(${signature(parameters)})`,
    description: brief(description),
    kind,
    requires_approval,
    recipes: recipes.map((recipe) => ({
      call: `tools.${name}.${recipe.name}(${signature(recipe.parameters)})`,
      description: brief(recipe.description),
    })),
  };
}

function toLines({ call, description, requires_approval, recipes }: Told): string[] {
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
