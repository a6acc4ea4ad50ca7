/** The YAML of a tool that is a program on this machine. */

import { z } from 'zod';
import { commonFields, Environment, Recipes } from './fields.ts';
import { identifier, itemType, parameterFields, scalarType } from './parameter.ts';
import { checkParameters } from './recipes.ts';

const noNul = (text: string): boolean => !text.includes('\0');

/** A list, or text that is split at spaces: no quoting, no variables, no shell. */
const CommandLine = z
  .union([z.string(), z.array(z.string().min(1).refine(noNul, 'holds a NUL'))], {
    error: 'must be text or a list of texts',
  })
  .transform((given) => (typeof given === 'string' ? given.split(/\s+/).filter((part) => part !== '') : given))
  .refine((argv) => argv.length > 0 && argv.every(noNul), 'must name a program');

const Option = z
  .strictObject({
    ...parameterFields,
    type: z.enum([...scalarType.unwrap().options, 'array']).default('string'),
    items: itemType,
    short: z
      .string()
      .regex(/^-?[A-Za-z0-9]$/, 'must be one letter or digit')
      .optional(),
    flag: z
      .string()
      .regex(/^[-+][^\s\0]*$/, 'must begin with - or + and hold no space')
      .optional(),
    /** Values may begin with a dash. */
    allow_dash: z.boolean().default(false),
    /** The items of a list as one value, with this between them. */
    separator: z.string().min(1).max(8).refine(noNul, 'holds a NUL').optional(),
  })
  .refine((option) => option.type === 'array' || (option.items === undefined && option.separator === undefined), {
    error: '`items` and `separator` are for options of `type: array`',
  })
  .refine((option) => option.items !== 'boolean', { error: 'the items of a list cannot be booleans' });
export type Option = z.infer<typeof Option>;

const Positional = z.strictObject({
  ...parameterFields,
  name: identifier('argument'),
  type: z.enum(['string', 'integer', 'number']).default('string'),
  /** Takes one value or more; only the last can. */
  variadic: z.boolean().default(false),
  allow_dash: z.boolean().default(false),
});

export const CliTool = z
  .strictObject({
    ...commonFields,
    type: z.literal('cli').default('cli'),
    command: CommandLine,
    runs_on: z.enum(['sandbox', 'host']).default('sandbox'),
    env: Environment.default({}),
    result: z.enum(['text', 'json', 'lines']).default('text'),
    success_codes: z.array(z.int().min(0).max(255)).min(1).default([0]),
    /** Puts `--` before the positionals. */
    end_of_options: z.boolean().default(false),
    schema: z
      .strictObject({
        options: z.record(identifier('argument'), Option).default({}),
        positional: z.array(Positional).default([]),
      })
      .default({ options: {}, positional: [] }),
    recipes: Recipes,
  })
  .superRefine((tool, context) => {
    checkPositionals(tool.schema.positional, context);
    for (const [name, value] of Object.entries(tool.env)) {
      if (typeof value === 'string' || tool.runs_on === 'host') continue;
      const message = 'a credential cannot be given to a program in the sandbox, where the code could read it';
      context.addIssue({ code: 'custom', path: ['env', name], message });
    }
    checkParameters(tool, context);
  });

export type CliTool = z.infer<typeof CliTool>;

function checkPositionals(positionals: readonly z.infer<typeof Positional>[], context: z.RefinementCtx): void {
  let optional: string | undefined;
  for (const [index, { name, required, variadic }] of positionals.entries()) {
    const path = ['schema', 'positional', index];
    const fail = (message: string) => context.addIssue({ code: 'custom', path, message });
    if (variadic && index < positionals.length - 1)
      fail(`only the last positional can be variadic, and ${name} is not`);
    if (required && optional !== undefined) fail(`${name} is required, so ${optional} before it must be too`);
    if (!required) optional ??= name;
  }
}
