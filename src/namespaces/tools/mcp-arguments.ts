/** What a caller gave to a tool of an MCP server, checked against the schema that the server has for it. */

import type { Tool } from '@modelcontextprotocol/client';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { bind, type Given } from './arguments.ts';
import { jsonProblem } from './json.ts';
import type { McpTool } from './mcp-definition.ts';
import { schemaParameters, schemaProblem, takesMore } from './mcp-schema.ts';
import type { Parameter } from './parameter.ts';
import { wrong } from './stopped.ts';

/** Arguments that fit the schema of the server's tool. */
export interface McpCall {
  readonly callee: string;
  readonly tool: McpTool;
  /** As the server calls it. */
  readonly name: string;
  readonly arguments: Readonly<Record<string, PyValue>>;
}

/** `tools` are those of the server, by the names that code writes. Their own names do as well. */
export function prepareMcp(
  tool: McpTool,
  tools: ReadonlyMap<string, Tool>,
  recipe: string | undefined,
  given: Given,
): McpCall {
  const served =
    recipe === undefined ? undefined : (tools.get(recipe) ?? [...tools.values()].find(({ name }) => name === recipe));
  if (served === undefined) throw noSuchTool(tool, recipe, [...tools.keys()]);
  const callee = `${tool.name}.${recipe}`;
  const schema = served.inputSchema;
  const known = schemaParameters(schema);
  const parameters = [...known.map(withoutDefault), ...(takesMore(schema) ? unlisted(known, given) : [])];
  const args = Object.fromEntries(bind(callee, { parameters, fixed: new Map() }, given).values);
  const problem = jsonProblem(args, { big: false }) ?? schemaProblem(schema, args);
  if (problem !== undefined) throw wrong(callee, known, `was given arguments that do not fit: ${problem}`);
  return { callee, tool, name: served.name, arguments: args };
}

/** Defaults are for readers; the server sets them itself. */
function withoutDefault(parameter: Parameter): Parameter {
  return { ...parameter, default: undefined };
}

function unlisted(known: readonly Parameter[], { named }: Given): Parameter[] {
  const names = Object.keys(named).filter((name) => !known.some((parameter) => parameter.name === name));
  return names.map((name) => ({
    name,
    type: 'any',
    description: '',
    required: false,
    positional: false,
    variadic: false,
  }));
}

function noSuchTool(tool: McpTool, recipe: string | undefined, known: readonly string[]): CellaError {
  const list = known.length === 0 ? 'It has none.' : `It has ${known.join(', ')}.`;
  const problem =
    recipe === undefined ? 'is an MCP server: call one of its tools' : `has no tool ${JSON.stringify(recipe)}`;
  const code = recipe === undefined ? 'TOOL_ARGUMENTS' : 'TOOL_NOT_FOUND';
  return new CellaError(code, `tools.${tool.name} ${problem}. ${list}`, { details: { tool: tool.name, known } });
}
