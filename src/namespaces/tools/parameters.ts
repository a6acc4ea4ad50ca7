/** The parameters of a tool and of its recipes: their YAML, the call signature, and checks of values. */

import { z } from 'zod';
import { omitUndefined } from '../../lib/omit-undefined.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';

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

/** Arguments that are set beforehand, and which others may be given. */
export const RecipeDefinition = z.strictObject({
  description: z.string().max(20_000).default(''),
  preset: z.record(z.string(), z.json()).default({}),
  params: z
    .record(
      z.string(),
      z
        .strictObject({
          description: z.string().max(4000).optional(),
          required: z.boolean().optional(),
          default: z.json().optional(),
        })
        .nullable(),
    )
    .optional(),
});
export type RecipeDefinition = z.infer<typeof RecipeDefinition>;

/** What a caller may give, and what is set without them. */
export interface CallSignature {
  readonly parameters: readonly Parameter[];
  /** Values of arguments that callers cannot give. */
  readonly presetValues: ReadonlyMap<string, PyValue>;
}

type SignatureShape = Omit<Parameter, 'name' | 'positional' | 'variadic'>;
type RecipeDefinitions = Readonly<Record<string, RecipeDefinition>>;

type Described =
  | {
      readonly type: 'http';
      readonly parameters: Readonly<Record<string, SignatureShape>>;
      readonly recipes: RecipeDefinitions;
    }
  | {
      readonly type: 'cli';
      readonly schema: {
        readonly options: Readonly<Record<string, SignatureShape>>;
        readonly positional: readonly (SignatureShape & { name: string; type: ItemType; variadic: boolean })[];
      };
      readonly recipes: RecipeDefinitions;
    };

export function parametersOf(tool: Described): Parameter[] {
  if (tool.type === 'http') {
    return Object.entries(tool.parameters).map(([name, parameter]) => ({
      ...parameter,
      name,
      positional: parameter.required,
      variadic: false,
    }));
  }
  const { options, positional } = tool.schema;
  return [
    ...positional.map((parameter) => ({
      ...parameter,
      ...(parameter.variadic ? { type: 'array' as const, items: parameter.type } : {}),
      positional: true,
    })),
    ...Object.entries(options).map(([name, option]) => ({
      ...option,
      name,
      items: option.type === 'array' ? (option.items ?? 'string') : undefined,
      positional: false,
      variadic: false,
    })),
  ];
}

export function callSignature(tool: Described, recipe?: RecipeDefinition): CallSignature {
  const all = parametersOf(tool);
  if (recipe === undefined) return { parameters: all, presetValues: new Map() };
  const presets = recipe.preset;
  const parameters: Parameter[] = [];
  const fixed = new Map<string, PyValue>();
  for (const parameter of all) {
    const isPreset = Object.hasOwn(presets, parameter.name);
    const listed = recipe.params === undefined || Object.hasOwn(recipe.params, parameter.name);
    if (isPreset) {
      // It comes after those that a caller must give, by name only: a place that moves would be a trap.
      parameters.push({ ...parameter, default: presets[parameter.name], required: false, positional: false });
    } else if (listed) {
      parameters.push({ ...parameter, ...definedFields(recipe.params?.[parameter.name] ?? {}) });
    } else if (parameter.default !== undefined) {
      fixed.set(parameter.name, parameter.default);
    }
  }
  return { parameters, presetValues: fixed };
}

function definedFields(change: {
  description?: string | undefined;
  required?: boolean | undefined;
  default?: PyValue | undefined;
}) {
  const { default: value, description, required } = change;
  return omitUndefined({ description, required: value === undefined ? required : false, default: value });
}

/** Names that are not there, and defaults and presets of the wrong type, when the definition is read. */
export function checkParameters(tool: Described, context: z.RefinementCtx): void {
  const fail = (path: PropertyKey[], message: string) => context.addIssue({ code: 'custom', path, message });
  const all = parametersOf(tool);
  const byName = new Map(all.map((parameter) => [parameter.name, parameter]));
  const check = (path: PropertyKey[], name: string, value: PyValue | undefined) => {
    const parameter = byName.get(name);
    if (parameter === undefined)
      return fail(path, `there is no argument ${name}; there are ${[...byName.keys()].join(', ')}`);
    const problem = value === undefined ? undefined : valueProblem(parameter, value);
    if (problem !== undefined) fail(path, `${name} ${problem}`);
  };
  if (byName.size < all.length) fail(['schema', 'positional'], 'two arguments have the same name');
  for (const parameter of all) {
    const path = yamlPath(tool, parameter.name);
    check(path, parameter.name, parameter.default);
    const choice = { type: parameter.items ?? parameter.type };
    for (const value of parameter.enum ?? []) {
      const problem = valueProblem(choice, value);
      if (problem !== undefined) fail(path, `a choice of ${parameter.name} ${problem}`);
    }
  }
  for (const [name, recipe] of Object.entries(tool.recipes)) {
    const at = ['recipes', name];
    for (const [key, value] of Object.entries(recipe.preset)) check([...at, 'preset', key], key, value);
    for (const [key, change] of Object.entries(recipe.params ?? {}))
      check([...at, 'params', key], key, change?.default);
    for (const { name: key, required } of all) {
      if (!required || recipe.params === undefined) continue;
      if (!Object.hasOwn(recipe.params, key) && !Object.hasOwn(recipe.preset, key)) {
        fail([...at, 'params'], `${key} is required, so it must be in \`params\` or in \`preset\``);
      }
    }
  }
}

function yamlPath(tool: Described, name: string): PropertyKey[] {
  if (tool.type === 'http') return ['parameters', name];
  const index = tool.schema.positional.findIndex((parameter) => parameter.name === name);
  return index < 0 ? ['schema', 'options', name] : ['schema', 'positional', index];
}
