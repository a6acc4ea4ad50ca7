/** The OpenAPI document of the server, made from the same definitions that check its requests. */

import { z } from 'zod';
import { type Route, schemaBehind } from '../../protocol/api/route.ts';
import { ErrorBody } from '../../protocol/error-body.ts';

type JsonObject = Record<string, unknown>;

export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: JsonObject; readonly securitySchemes: JsonObject };
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly security: readonly JsonObject[];
  readonly parameters: readonly JsonObject[];
  readonly requestBody?: JsonObject;
  readonly responses: Record<string, JsonObject>;
}

const DESCRIPTION =
  'Sessions of Python kernels: run code, follow its events, go back in time, manage files and packages. See docs/server.md.';

export function openApiDocument(endpoints: readonly Route[], version: string): OpenApiDocument {
  const schemas: JsonObject = {};
  const paths: OpenApiDocument['paths'] = {};
  for (const endpoint of endpoints) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: operationOf(endpoint, schemas) };
  }
  const securitySchemes = {
    token: { type: 'http', scheme: 'bearer', description: 'An API token: cella_…' },
    cookie: { type: 'apiKey', in: 'cookie', name: 'cella', description: 'A browser that has logged in.' },
  };
  const info = { title: 'Cella', version, description: DESCRIPTION };
  return { openapi: '3.1.0', info, paths, components: { schemas, securitySchemes } };
}

function operationOf(endpoint: Route, schemas: JsonObject): Operation {
  const { summary, tag, access, socket, params, query, headers } = endpoint;
  const body = bodyOf(endpoint, schemas);
  return {
    operationId: idOf(endpoint),
    summary,
    description: whoMay(endpoint),
    tags: [tag],
    security: access.kind === 'everybody' ? [] : [{ token: [] }, { cookie: [] }],
    parameters: [
      ...parametersOf(params, 'path', schemas),
      ...parametersOf(query, 'query', schemas),
      ...parametersOf(headers, 'header', schemas),
    ],
    ...(body ? { requestBody: body } : {}),
    responses: {
      ...(socket
        ? { 101: { description: 'It is a WebSocket from here on.' } }
        : { [endpoint.status]: { description: 'Done.', ...contentOf(endpoint, schemas) } }),
      default: {
        description: 'It failed.',
        content: { 'application/json': { schema: schemaOf(ErrorBody, 'output', schemas) } },
      },
    },
  };
}

/** What programs that are made from the document call it: `postSessionsByIdExecute`. */
function idOf({ method, path }: Route): string {
  // Pages of the same name as a route of the API are told apart.
  const named = { '/': '/home', '/login': '/login-page' }[path] ?? path;
  const words = named
    .replace('/v1/', '/')
    .replaceAll('{', 'by-')
    .split(/[^a-zA-Z]+/);
  return [method, ...words.filter((word) => word !== '').map((word) => word[0]?.toUpperCase() + word.slice(1))].join(
    '',
  );
}

function whoMay({ access }: Route): string {
  switch (access.kind) {
    case 'everybody':
      return 'Needs no token.';
    case 'anybody':
      return 'Needs a token.';
    case 'admin':
      return 'For administrators.';
    case 'session':
      return `Needs the right to ${access.right} the session.`;
  }
}

function bodyOf({ body, takes }: Route, schemas: JsonObject): JsonObject | undefined {
  if (takes !== undefined) return { required: true, content: { [takes]: { schema: {} } } };
  if (isNothing(body)) return undefined;
  const required = !body.safeParse(undefined).success;
  return { required, content: { 'application/json': { schema: schemaOf(body, 'input', schemas) } } };
}

function contentOf({ result, gives }: Route, schemas: JsonObject): JsonObject {
  const json = isNothing(result) ? [] : [['application/json', { schema: schemaOf(result, 'output', schemas) }]];
  const others = gives.map((type) => [type, { schema: {} }]);
  return json.length + others.length === 0 ? {} : { content: Object.fromEntries([...json, ...others]) };
}

function parametersOf(schema: z.ZodType, place: 'path' | 'query' | 'header', schemas: JsonObject): JsonObject[] {
  const { properties = {}, required = [] } = schemaOf(schema, 'input', schemas) as {
    properties?: Record<string, JsonObject>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...shape }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: shape,
  }));
}

/** OpenAPI 3.1 takes JSON Schema as it is; what has a name goes to the components. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', schemas: JsonObject): JsonObject {
  const { $schema, $defs, ...made } = z.toJSONSchema(schemaBehind(schema), {
    io,
    unrepresentable: 'any',
    reused: 'inline',
  });
  const moved: JsonObject = JSON.parse(JSON.stringify(made).replaceAll('"#/$defs/', '"#/components/schemas/'));
  for (const [name, shape] of Object.entries($defs ?? {})) {
    schemas[name] ??= JSON.parse(JSON.stringify(shape).replaceAll('"#/$defs/', '"#/components/schemas/'));
  }
  const { id, ...own } = moved;
  if (typeof id !== 'string') return own;
  schemas[id] ??= own;
  return { $ref: `#/components/schemas/${id}` };
}

function isNothing(schema: z.ZodType): boolean {
  return schema instanceof z.ZodUndefined;
}
