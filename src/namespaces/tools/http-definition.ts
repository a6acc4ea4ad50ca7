/** The YAML of a tool that is an HTTP endpoint. */

import { z } from 'zod';
import { commonFields, Recipes } from './fields.ts';
import { Auth, Headers, HttpUrl } from './http-fields.ts';
import { identifier, itemType, ParameterType, parameterFields } from './parameter.ts';
import { checkParameters } from './recipes.ts';
import { placeholders, urlTemplateProblem } from './template.ts';

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
      if (!used.has(name)) fail(['parameters', name], `${name} is used nowhere: write {${name}} where it belongs`);
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
