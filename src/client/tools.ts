/** The tools of a session at a server. */

import { z } from 'zod';
import * as wire from '../protocol/api/namespace-routes.ts';
import { type PyValue, valueFromWire, valueToWire } from '../protocol/py-values.ts';
import type { ToolCallOptions, ToolInfo, ToolProblem, ToolsApi } from '../session/api.ts';
import { checked } from './link.ts';
import { callAt, everyPage, type Place } from './place.ts';

const Value = z.json().transform((value): PyValue => valueFromWire(value));
const scalar = z.enum(['string', 'integer', 'number', 'boolean']);
const Parameter = z.object({
  name: z.string(),
  type: z.enum([...scalar.options, 'array', 'object', 'any']),
  items: scalar.optional(),
  description: z.string(),
  required: z.boolean(),
  default: Value.exactOptional(),
  enum: z.array(Value).optional(),
  positional: z.boolean(),
  variadic: z.boolean(),
});
const parameters = z.array(Parameter);
const Tool: z.ZodType<ToolInfo> = z.object({
  name: z.string(),
  description: z.string(),
  tags: z.array(z.string()),
  kind: z.enum(['cli', 'mcp', 'http']),
  runs_on: z.enum(['sandbox', 'host']),
  requires_approval: z.boolean(),
  parameters,
  recipes: z.array(z.object({ name: z.string(), description: z.string(), parameters })),
});

export class RemoteTools implements ToolsApi {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  async list(): Promise<readonly ToolInfo[]> {
    return await everyPage(async (after) => {
      const { tools, next } = await callAt(this.#place, wire.ListTools, { query: { after } });
      return { items: tools.map(toTool), next };
    });
  }

  async search(q: string, { limit }: { readonly limit?: number } = {}): Promise<readonly ToolInfo[]> {
    return (await callAt(this.#place, wire.ListTools, { query: { q, limit } })).tools.map(toTool);
  }

  async describe(name: string): Promise<ToolInfo> {
    return toTool(await callAt(this.#place, wire.GetTool, { params: { name } }));
  }

  async call(name: string, named: Record<string, PyValue>, options: ToolCallOptions = {}): Promise<PyValue> {
    const { recipe, positional = [], approved, signal } = options;
    const values = Object.fromEntries(Object.entries(named).map(([key, value]) => [key, valueToWire(value)]));
    const body = { recipe, positional: positional.map(valueToWire), named: values, approved };
    return valueFromWire((await callAt(this.#place, wire.CallTool, { params: { name }, body, signal })).value);
  }

  /** For administrators: a definition may name programs of the server's machine. */
  async add(
    yaml: string,
    { replace, where }: { readonly replace?: boolean; readonly where?: string } = {},
  ): Promise<ToolInfo> {
    return toTool(await callAt(this.#place, wire.AddTool, { body: { yaml, replace, where } }));
  }

  async remove(name: string): Promise<boolean> {
    return (await callAt(this.#place, wire.RemoveTool, { params: { name } })).removed;
  }

  async problems(): Promise<readonly ToolProblem[]> {
    return (await callAt(this.#place, wire.ToolProblems)).problems;
  }
}

export function toTool(value: unknown): ToolInfo {
  return checked(Tool, value, 'tools');
}
