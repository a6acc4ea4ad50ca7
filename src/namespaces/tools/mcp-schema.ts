/** The JSON schema of an MCP server's tool, as the arguments that code gives. */

import type { JsonSchemaType, Tool } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier } from '../../protocol/namespace-models.ts';
import { BoundedSchemas } from './bounded-schemas.ts';
import { CALLABLE_METHODS } from './fields.ts';
import { type Parameter, ParameterType } from './parameter.ts';

/** Servers write what they like: what is not understood is left out, and checked by the schema itself. */
const Property = z.object({
  type: z.unknown().transform(firstType),
  description: z.string().catch(''),
  default: z.json().optional().catch(undefined),
  enum: z.array(z.json()).min(1).optional().catch(undefined),
});

const Schema = z.custom<JsonSchemaType>((value) => typeof value === 'object' && value !== null);

function firstType(type: unknown): ParameterType {
  const types = (Array.isArray(type) ? type : [type]).filter((name) => name !== 'null');
  return types.length === 1 && Array.isArray(type) === false ? ParameterType.catch('any').parse(types[0]) : 'any';
}

export function schemaParameters(schema: Tool['inputSchema']): Parameter[] {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const known = Property.catch({ type: 'any', description: '' }).parse(property);
    const { description, type } = known;
    const needed = required.has(name);
    return {
      name,
      type,
      description,
      default: known.default,
      enum: known.enum,
      required: needed,
      positional: needed,
      variadic: false,
    };
  });
}

/** Whether names beside those that are listed are welcome. Silence is no welcome: a slip must not pass unseen. */
export function takesMore(schema: Tool['inputSchema']): boolean {
  const { additionalProperties: more } = schema;
  return more === true || (typeof more === 'object' && more !== null);
}

/** Why the arguments do not fit, down to the last level; undefined where they do. */
export function schemaProblem(
  schema: Tool['inputSchema'],
  values: Readonly<Record<string, unknown>>,
): string | undefined {
  try {
    const result = new BoundedSchemas().getValidator(Schema.parse(schema))(values);
    return result.valid ? undefined : result.errorMessage;
  } catch (error) {
    return `the server's own schema cannot be used (${error instanceof Error ? error.message : String(error)})`;
  }
}

/** A name that code can write: `read-file` is `read_file`. */
export function pythonName(name: string): string {
  const plain = name.replace(/\P{XIDC}/gu, '_').replace(/^_+/, '');
  for (const candidate of [plain, `${plain}_`, `tool_${plain}`]) {
    try {
      return checkIdentifier(candidate, 'tool', CALLABLE_METHODS);
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
    }
  }
  return 'tool_';
}
