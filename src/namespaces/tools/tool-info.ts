/** The description of a tool for its callers. */

import type { PyValue } from '../../protocol/py-values.ts';
import { callSignature, type Parameter } from './parameters.ts';
import type { ToolDefinition } from './tool-definition.ts';

export interface ToolInfo {
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly kind: 'cli' | 'mcp' | 'http';
  readonly runs_on: 'sandbox' | 'host';
  readonly requires_approval: boolean;
  readonly parameters: readonly Parameter[];
  readonly recipes: readonly RecipeInfo[];
}

export interface RecipeInfo {
  readonly name: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
}

/** The tools of an MCP server are known only to the server, so they are given. */
export function toolInfo(tool: ToolDefinition, served: readonly RecipeInfo[] = []): ToolInfo {
  const { name, description, tags, type: kind, requires_approval } = tool;
  const facts = { name, description, tags, kind, requires_approval };
  if (tool.type === 'mcp') return { ...facts, runs_on: 'host', parameters: [], recipes: served };
  return {
    ...facts,
    runs_on: tool.type === 'cli' ? tool.runs_on : 'host',
    parameters: callSignature(tool).parameters,
    recipes: Object.entries(tool.recipes).map(([recipe, given]) => ({
      name: recipe,
      description: given.description,
      parameters: callSignature(tool, given).parameters,
    })),
  };
}

/** As it goes to the code. */
export function toPyValue(info: ToolInfo): { [name: string]: PyValue } {
  return {
    ...info,
    tags: [...info.tags],
    parameters: info.parameters.map(parameterValue),
    recipes: info.recipes.map((recipe) => ({ ...recipe, parameters: recipe.parameters.map(parameterValue) })),
  };
}

function parameterValue(parameter: Parameter): { [name: string]: PyValue } {
  const { name, type, required, description, positional, variadic } = parameter;
  const choices = parameter.enum === undefined ? null : [...parameter.enum];
  return { name, type, required, default: parameter.default ?? null, description, positional, variadic, enum: choices };
}
