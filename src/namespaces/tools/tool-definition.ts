/** The YAML schemas of a tool (a program, an HTTP endpoint or an MCP server), and its description for callers. */

import { z } from 'zod';
import { ParameterType, type RecipeInfo, type ToolInfo, type ToolParameter } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import {
  callSignature,
  checkParameters,
  identifier,
  itemType,
  parameterFields,
  RecipeDefinition,
  scalarType,
} from './parameters.ts';
import { placeholders, urlTemplateProblem } from './placeholders.ts';
import { hasControl } from './tool-output.ts';

/** Names that no tool can have, as they are methods of `tools`. */
const TOOL_METHODS = new Set(['list', 'search', 'describe', 'call', 'get', 'help']);
/** Names that no recipe can have, as they are methods of tools. */
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

/** Of one definition. */
export const MOST_YAML_BYTES = 256 * 1024;
const LONGEST_SECONDS = 86_400;
const MOST_OUTPUT = 64 * 1024 * 1024;

const Seconds = z.number().positive().max(LONGEST_SECONDS);

const commonFields = {
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

/** The name of a secret, which the host looks up when needed. */
const CredentialName = z.string().regex(/^[\w.-]{1,128}$/, 'must be the name of a credential: letters, digits, . _ -');

const EnvironmentVariables = z.record(
  z.string().regex(/^[A-Za-z_]\w*$/, 'must be the name of an environment variable'),
  z.union(
    [z.string().refine((text) => !text.includes('\0'), 'holds a NUL'), z.strictObject({ credential: CredentialName })],
    {
      error: 'must be text or `{credential: NAME}`',
    },
  ),
);

const Recipes = z.record(identifier('recipe', CALLABLE_METHODS), RecipeDefinition).default({});

/** As in RFC 9110: no spaces, no colon, no control characters. */
const HeaderName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be the name of a header');
const HeaderValue = z.string().refine((text) => !hasControl(text), 'holds a control character');
const Headers = z.record(HeaderName, HeaderValue);

const HttpUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  return (
    url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '' && url.hash === ''
  );
}, 'must be an http or https URL without a user, a password and a fragment');

export const Auth = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('bearer'), credential: CredentialName }),
  z.strictObject({ type: z.literal('basic'), username: HeaderValue.default(''), credential: CredentialName }),
  z.strictObject({ type: z.literal('header'), name: HeaderName, credential: CredentialName }),
  z.strictObject({ type: z.literal('query'), name: z.string().min(1), credential: CredentialName }),
]);
export type Auth = z.infer<typeof Auth>;

const noNul = (text: string): boolean => !text.includes('\0');

/** A list, or text that is split at spaces, without quoting, variables or a shell. */
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
      .regex(/^[-+][^\s\0]*$/, 'must begin with - or + and contain no space')
      .optional(),
    /** Values may begin with a dash. */
    allow_dash: z.boolean().default(false),
    /** Joins the items of a list to one value with this separator. */
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
  /** Whether it takes one or more values. Only the last positional can. */
  variadic: z.boolean().default(false),
  allow_dash: z.boolean().default(false),
});

export const CliTool = z
  .strictObject({
    ...commonFields,
    type: z.literal('cli').default('cli'),
    command: CommandLine,
    runs_on: z.enum(['sandbox', 'host']).default('sandbox'),
    env: EnvironmentVariables.default({}),
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

const HttpParameter = z.strictObject({
  ...parameterFields,
  default: z.json().optional(),
  type: ParameterType.default('string'),
  items: itemType,
});

export const HttpTool = z
  .strictObject({
    ...commonFields,
    type: z.literal('http'),
    method: z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']).default('GET'),
    url: HttpUrl,
    headers: Headers.default({}),
    query: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
    body: z.json().optional(),
    auth: Auth.optional(),
    result: z.enum(['auto', 'json', 'text', 'bytes']).default('auto'),
    parameters: z.record(identifier('argument'), HttpParameter).default({}),
    recipes: Recipes,
  })
  .superRefine((tool, context) => {
    const fail = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    const problem = urlTemplateProblem(tool.url);
    if (problem !== undefined) fail(['url'], problem);
    if (tool.body !== undefined && /^(GET|HEAD)$/.test(tool.method)) fail(['body'], `${tool.method} has no body`);
    const parts = { url: tool.url, headers: tool.headers, query: tool.query, body: tool.body };
    for (const [field, part] of Object.entries(parts)) {
      for (const name of placeholders(part)) {
        if (!Object.hasOwn(tool.parameters, name)) fail([field], `{${name}} is not one of the \`parameters\``);
      }
    }
    const used = placeholders(parts);
    const inUrl = placeholders(tool.url);
    for (const [name, parameter] of Object.entries(tool.parameters)) {
      if (!used.has(name)) fail(['parameters', name], `${name} is not used: write {${name}} into the definition`);
      if (inUrl.has(name) && !parameter.required && parameter.default === undefined) {
        fail(['parameters', name], `${name} is part of the URL, so it must be required or have a default`);
      }
      if (inUrl.has(name) && /^(array|object|any)$/.test(parameter.type)) {
        fail(['parameters', name], `${name} is part of the URL, so it cannot be of the type ${parameter.type}`);
      }
    }
    checkParameters(tool, context);
  });
export type HttpTool = z.infer<typeof HttpTool>;

const Text = z.string().refine((text) => !text.includes('\0'), 'holds a NUL');

export const McpTool = z
  .strictObject({
    ...commonFields,
    type: z.literal('mcp'),
    /** How many seconds the server may take to start and to list its tools. */
    start_timeout: Seconds.default(30),
    command: Text.min(1).optional(),
    args: z.array(Text).optional(),
    env: EnvironmentVariables.optional(),
    runs_on: z.literal('host', { error: 'an MCP server cannot run in the sandbox; set `runs_on: host`' }).optional(),
    url: HttpUrl.optional(),
    transport: z.enum(['streamable-http', 'sse']).default('streamable-http'),
    headers: Headers.default({}),
    auth: Auth.optional(),
  })
  .superRefine((tool, context) => {
    const fail = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    if ((tool.command === undefined) === (tool.url === undefined))
      fail([], 'an MCP server has either `command` or `url`');
    if (tool.command !== undefined) {
      if (tool.runs_on !== 'host')
        fail(['command'], 'a server that is a program runs outside of the sandbox; set `runs_on: host`');
      if (tool.auth !== undefined)
        fail(['auth'], '`auth` is for servers with a `url`; a program gets credentials by `env`');
      return;
    }
    if (tool.args !== undefined) fail(['args'], '`args` is for servers with a `command`');
    if (tool.env !== undefined) fail(['env'], '`env` is for servers with a `command`');
    if (tool.auth?.type === 'query') fail(['auth'], 'a credential in the query is only for `type: http`');
  });
export type McpTool = z.infer<typeof McpTool>;

export type ToolDefinition = CliTool | McpTool | HttpTool;

/** Distinguished by the field `type`; without it, a tool is a program. */
export const toolSchemas = { cli: CliTool, mcp: McpTool, http: HttpTool } as const;

/** `tools`: the tools of an MCP server, which only the server knows. */
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

/** The description for the code. */
export function toPyValue(info: ToolInfo): { [name: string]: PyValue } {
  return {
    ...info,
    tags: [...info.tags],
    parameters: info.parameters.map(parameterValue),
    recipes: info.recipes.map((recipe) => ({ ...recipe, parameters: recipe.parameters.map(parameterValue) })),
  };
}

function parameterValue(parameter: ToolParameter): { [name: string]: PyValue } {
  const { name, type, required, description, positional, variadic } = parameter;
  const choices = parameter.enum === undefined ? null : [...parameter.enum];
  return { name, type, required, default: parameter.default ?? null, description, positional, variadic, enum: choices };
}
