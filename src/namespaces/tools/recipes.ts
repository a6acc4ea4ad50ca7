/** The arguments of a tool and of its recipes, and whether presets and defaults fit them. */

import { z } from 'zod';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { type ItemType, type Parameter, valueProblem } from './parameter.ts';

/** Arguments that are set beforehand, and which others may be given. */
export const Recipe = z.strictObject({
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
export type Recipe = z.infer<typeof Recipe>;

/** What a caller may give, and what is set without them. */
export interface Callable {
  readonly parameters: readonly Parameter[];
  /** Values of arguments that callers cannot give. */
  readonly fixed: ReadonlyMap<string, PyValue>;
}

type Shape = Omit<Parameter, 'name' | 'positional' | 'variadic'>;
type Recipes = Readonly<Record<string, Recipe>>;

type Described =
  | { readonly type: 'http'; readonly parameters: Readonly<Record<string, Shape>>; readonly recipes: Recipes }
  | {
      readonly type: 'cli';
      readonly schema: {
        readonly options: Readonly<Record<string, Shape>>;
        readonly positional: readonly (Shape & { name: string; type: ItemType; variadic: boolean })[];
      };
      readonly recipes: Recipes;
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

export function callableOf(tool: Described, recipe?: Recipe): Callable {
  const all = parametersOf(tool);
  if (recipe === undefined) return { parameters: all, fixed: new Map() };
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
      parameters.push({ ...parameter, ...defined(recipe.params?.[parameter.name] ?? {}) });
    } else if (parameter.default !== undefined) {
      fixed.set(parameter.name, parameter.default);
    }
  }
  return { parameters, fixed };
}

function defined(change: {
  description?: string | undefined;
  required?: boolean | undefined;
  default?: PyValue | undefined;
}) {
  const { default: value, description, required } = change;
  return {
    ...(description === undefined ? {} : { description }),
    ...(required === undefined ? {} : { required }),
    ...(value === undefined ? {} : { default: value, required: false }),
  };
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
    const path = pathOf(tool, parameter.name);
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

function pathOf(tool: Described, name: string): PropertyKey[] {
  if (tool.type === 'http') return ['parameters', name];
  const index = tool.schema.positional.findIndex((parameter) => parameter.name === name);
  return index < 0 ? ['schema', 'options', name] : ['schema', 'positional', index];
}
