/**
 * The parameters of a tool and of its recipes: their YAML, the call signature, checks of values, and the arguments of a call
 * bound to them before anything runs.
 */

import { z } from 'zod';
import { omitUndefined } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier, ItemType, type ParameterType, type ToolParameter } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';

const Plain = z.union([z.string(), z.number(), z.boolean()], { error: 'must be text, a number, true or false' });

/** The fields that all descriptions of arguments have. */
export const parameterFields = {
  description: z.string().max(4000).default(''),
  required: z.boolean().default(false),
  default: z
    .union([Plain, z.array(Plain)], { error: 'must be text, a number, true, false or a list of these' })
    .optional(),
  enum: z.array(Plain).min(1).optional(),
};

export const scalarType = ItemType.default('string');
export const itemType = ItemType.optional();

/** Names that are valid in code. `taken`: names that have another meaning there. */
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

/** Why the value does not match the parameter, or undefined. */
export function valueProblem(
  parameter: Pick<ToolParameter, 'type' | 'items' | 'enum'>,
  value: PyValue,
): string | undefined {
  const wrong = typeProblem(parameter.type, value) ?? itemsProblem(parameter, value);
  if (wrong !== undefined || parameter.enum === undefined) return wrong;
  const choices: readonly PyValue[] = parameter.enum;
  const values = Array.isArray(value) ? value : [value];
  if (values.every((item) => choices.includes(item))) return undefined;
  return `must be one of ${choices.map((choice) => JSON.stringify(choice)).join(', ')}`;
}

function itemsProblem(parameter: Pick<ToolParameter, 'items'>, value: PyValue): string | undefined {
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

/** The preset arguments of a recipe, and which others callers may pass. */
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

/** The parameters that callers may pass, and the presets. */
export interface CallSignature {
  readonly parameters: readonly ToolParameter[];
  /** Values of arguments that callers cannot pass. */
  readonly presetValues: ReadonlyMap<string, PyValue>;
}

type SignatureShape = Omit<ToolParameter, 'name' | 'positional' | 'variadic'>;
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

export function parametersOf(tool: Described): ToolParameter[] {
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
  const parameters: ToolParameter[] = [];
  const fixed = new Map<string, PyValue>();
  for (const parameter of all) {
    const isPreset = Object.hasOwn(presets, parameter.name);
    const listed = recipe.params === undefined || Object.hasOwn(recipe.params, parameter.name);
    if (isPreset) {
      // After the required ones and by name only, as its position could change.
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
  default?: ToolParameter['default'];
}) {
  const { default: value, description, required } = change;
  return omitUndefined({ description, required: value === undefined ? required : false, default: value });
}

/** Finds unknown names, and defaults and presets of the wrong type, when a definition is read. */
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

export function abortedError(callee: string): CellaError {
  return new CellaError('ABORTED', `tools.${callee} was stopped, because nobody waits for it any more.`);
}

export function throwIfAborted(signal: AbortSignal, callee: string): void {
  if (signal.aborted) throw abortedError(callee);
}

export function argumentError(callee: string, parameters: readonly ToolParameter[], problem: string): CellaError {
  const known = parameters.map(({ name }) => name);
  const takes = known.length === 0 ? 'It takes no arguments.' : `It takes ${known.join(', ')}.`;
  return new CellaError('TOOL_ARGUMENTS', `tools.${callee} ${problem}. ${takes}`, { details: { tool: callee, known } });
}

export interface CallArguments {
  readonly positional: readonly PyValue[];
  readonly named: Readonly<Record<string, PyValue>>;
}

export interface BoundArguments {
  /** Values by name, with defaults and presets. Missing names were not given. */
  readonly values: ReadonlyMap<string, PyValue>;
  /** The names whose values come from the caller, who is not trusted. */
  readonly fromCaller: ReadonlySet<string>;
}

/** `callee`: the name in the code, for errors, such as `grep.count`. */
export function bindArguments(
  callee: string,
  { parameters, presetValues: fixed }: CallSignature,
  given: CallArguments,
): BoundArguments {
  const received = receive(callee, parameters, given);
  const values = new Map(fixed);
  for (const parameter of parameters) {
    const { name } = parameter;
    const value = received.has(name) ? (received.get(name) ?? null) : (parameter.default ?? null);
    if (value === null || (parameter.variadic && Array.isArray(value) && value.length === 0)) {
      if (parameter.required) throw argumentError(callee, parameters, `needs ${name}`);
      continue;
    }
    const problem = received.has(name) ? valueProblem(parameter, value) : undefined;
    if (problem !== undefined) throw argumentError(callee, parameters, `got a wrong ${name}: it ${problem}`);
    values.set(name, value);
  }
  return { values, fromCaller: new Set(received.keys()) };
}

/** Arguments by name. None removes a default or a preset. */
function receive(callee: string, parameters: readonly ToolParameter[], given: CallArguments): Map<string, PyValue> {
  const received = new Map<string, PyValue>();
  const places = parameters.filter((parameter) => parameter.positional);
  for (const [index, value] of given.positional.entries()) {
    const last = places.at(-1);
    const parameter = places[index] ?? (last?.variadic ? last : undefined);
    if (parameter === undefined) {
      throw argumentError(
        callee,
        parameters,
        `takes ${places.length} arguments by position, but got ${given.positional.length}`,
      );
    }
    if (!parameter.variadic) received.set(parameter.name, value);
    else if (!received.has(parameter.name)) received.set(parameter.name, given.positional.slice(index));
  }
  const known = new Set(parameters.map(({ name }) => name));
  for (const [name, value] of Object.entries(given.named)) {
    if (!known.has(name)) throw argumentError(callee, parameters, `has no argument ${JSON.stringify(shortened(name))}`);
    if (received.has(name)) throw argumentError(callee, parameters, `got ${name} twice, by position and by name`);
    received.set(name, value);
  }
  return received;
}

function shortened(name: string): string {
  return name.length > 80 ? `${name.slice(0, 80)}…` : name;
}
