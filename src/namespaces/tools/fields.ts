/** The fields that tools of every kind have in their YAML. */

import { z } from 'zod';
import { identifier } from './parameter.ts';
import { Recipe } from './recipes.ts';

/** These are methods of `tools` itself. */
const TOOL_METHODS = new Set(['list', 'search', 'describe', 'call', 'get', 'help']);
/** And these of each tool. */
export const CALLABLE_METHODS = new Set([
  'call',
  'call_sync',
  'call_async',
  'describe',
  'help',
  'list',
  'name',
  'recipes',
]);

const LONGEST_SECONDS = 86_400;
const MOST_OUTPUT = 64 * 1024 * 1024;

export const Seconds = z.number().positive().max(LONGEST_SECONDS);

export const commonFields = {
  name: identifier('tool', TOOL_METHODS),
  description: z.string().max(20_000).default(''),
  tags: z.array(z.string().max(200)).max(100).default([]),
  timeout: Seconds.default(60),
  requires_approval: z.boolean().default(false),
  /** Bytes. */
  output_limit: z
    .int()
    .positive()
    .max(MOST_OUTPUT)
    .default(1024 * 1024),
};

/** The name of a secret that the host looks up when it is needed. */
export const CredentialName = z
  .string()
  .regex(/^[\w.-]{1,128}$/, 'must be the name of a credential: letters, digits, . _ -');

export const Environment = z.record(
  z.string().regex(/^[A-Za-z_]\w*$/, 'must be the name of an environment variable'),
  z.union(
    [z.string().refine((text) => !text.includes('\0'), 'holds a NUL'), z.strictObject({ credential: CredentialName })],
    {
      error: 'must be text or `{credential: NAME}`',
    },
  ),
);

export const Recipes = z.record(identifier('recipe', CALLABLE_METHODS), Recipe).default({});
