/** One argument of a tool: its shape in YAML, and the check of a value against it. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { checkIdentifier } from '../../protocol/namespace-models.ts';

/** What callers see of an argument, whatever kind of tool it belongs to. */
export interface Parameter {
  readonly name: string;
  readonly type: ParameterType;
  /** Of the items, where the type is `array`. */
  readonly items?: ItemType | undefined;
  readonly description: string;
  readonly required: boolean;
  readonly default?: PyValue | undefined;
  readonly enum?: readonly PyValue[] | undefined;
  /** May be given by its place. */
  readonly positional: boolean;
  /** Takes all that is left of what is given by place. */
  readonly variadic: boolean;
}

const Item = z.enum(['string', 'integer', 'number', 'boolean']);
export const ParameterType = z.enum([...Item.options, 'array', 'object', 'any']);
export type ItemType = z.infer<typeof Item>;
export type ParameterType = z.infer<typeof ParameterType>;

const Plain = z.union([z.string(), z.number(), z.boolean()], { error: 'must be text, a number, true or false' });

/** The fields that every description of an argument has. */
export const parameterFields = {
  description: z.string().max(4000).default(''),
  required: z.boolean().default(false),
  default: z
    .union([Plain, z.array(Plain)], { error: 'must be text, a number, true, false or a list of these' })
    .optional(),
  enum: z.array(Plain).min(1).optional(),
};

export const scalarType = Item.default('string');
export const itemType = Item.optional();

/** Names that code can write. `taken` are those that mean something else in that place. */
export function identifier(what: string, taken?: ReadonlySet<string>) {
  return z.string().transform((name, context) => {
    try {
      return checkIdentifier(name, what, taken);
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
      return z.NEVER;
    }
  });
}

/** Why the value cannot be what the parameter asks for; undefined where it can. */
export function valueProblem(
  parameter: Pick<Parameter, 'type' | 'items' | 'enum'>,
  value: PyValue,
): string | undefined {
  const wrong = typeProblem(parameter.type, value) ?? itemsProblem(parameter, value);
  if (wrong !== undefined || parameter.enum === undefined) return wrong;
  const choices: readonly PyValue[] = parameter.enum;
  const values = Array.isArray(value) ? value : [value];
  if (values.every((item) => choices.includes(item))) return undefined;
  return `must be one of ${choices.map((choice) => JSON.stringify(choice)).join(', ')}`;
}

function itemsProblem(parameter: Pick<Parameter, 'items'>, value: PyValue): string | undefined {
  if (!Array.isArray(value) || parameter.items === undefined) return undefined;
  for (const [index, item] of value.entries()) {
    const wrong = typeProblem(parameter.items, item);
    if (wrong !== undefined) return `${wrong} (item ${index})`;
  }
  return undefined;
}

function typeProblem(type: ParameterType, value: PyValue): string | undefined {
  switch (type) {
    case 'any':
      return undefined;
    case 'string':
      return typeof value === 'string' ? undefined : wanted('text', value);
    case 'boolean':
      return typeof value === 'boolean' ? undefined : wanted('True or False', value);
    case 'integer':
      return typeof value === 'bigint' || Number.isInteger(value) ? undefined : wanted('a whole number', value);
    case 'number':
      return typeof value === 'bigint' || Number.isFinite(value) ? undefined : wanted('a number', value);
    case 'array':
      return Array.isArray(value) ? undefined : wanted('a list', value);
    case 'object':
      return pythonType(value) === 'dict' ? undefined : wanted('a dict', value);
  }
}

function wanted(what: string, value: PyValue): string {
  return `must be ${what}, and is ${pythonType(value)}`;
}

function pythonType(value: PyValue): string {
  if (value === null) return 'None';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Uint8Array) return 'bytes';
  switch (typeof value) {
    case 'string':
      return 'text';
    case 'boolean':
      return String(value) === 'true' ? 'True' : 'False';
    case 'number':
      return String(value);
    case 'bigint':
      return 'an int';
    default:
      return Object.getPrototypeOf(value) === Object.prototype ? 'dict' : 'an object';
  }
}
