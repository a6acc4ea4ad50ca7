/** Generates the OpenAPI document from the same definitions that validate requests. */

import { z } from 'zod';
import {
  HEARTBEAT_HEADER,
  type Route,
  type RouteAuth,
  type RouteTable,
  schemaBehind,
} from '../../protocol/api/route.ts';
import { ErrorBody, ErrorItem } from '../../protocol/parse.ts';

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
  /** The text frames of a WebSocket. */
  readonly 'x-websocket'?: { readonly client: JsonObject; readonly server: JsonObject };
  readonly responses: Record<string, JsonObject>;
}

const DESCRIPTION =
  'Sessions of Python kernels: run code, follow its events, go back in time, manage files and packages. See docs/http-api.md. A response as `application/x-ndjson` or `text/event-stream` is described by the schema of one item: a line, or the data of an event. `x-websocket` describes the text frames of a WebSocket.';

export function openApiDocument(routes: RouteTable, version: string): OpenApiDocument {
  const schemas: JsonObject = {};
  const paths: OpenApiDocument['paths'] = {};
  for (const route of Object.values(routes)) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route, schemas) };
  }
  const securitySchemes = {
    token: { type: 'http', scheme: 'bearer', description: 'An API token: cella_…' },
    cookie: { type: 'apiKey', in: 'cookie', name: 'cella', description: 'A browser that has logged in.' },
  };
  const info = { title: 'Cella', version, description: DESCRIPTION };
  return { openapi: '3.1.0', info, paths, components: { schemas, securitySchemes } };
}

function operationOf(route: Route, schemas: JsonObject): Operation {
  const { summary, tag, auth, socket, params, query, headers } = route;
  const body = bodyOf(route, schemas);
  return {
    operationId: idOf(route),
    summary,
    description: whoMay(auth),
    tags: [tag],
    security: securityOf(auth),
    parameters: [
      ...parametersOf(params, 'path', schemas),
      ...parametersOf(query, 'query', schemas),
      ...parametersOf(headers, 'header', schemas),
    ],
    requestBody: body,
    'x-websocket': socket && {
      client: schemaOf(socket.client, 'input', schemas),
      server: schemaOf(socket.server, 'output', schemas),
    },
    responses: {
      ...(socket
        ? { 101: { description: 'Switches to the WebSocket protocol.' } }
        : { [route.status]: { description: 'Done.', ...headersOf(route), ...contentOf(route, schemas) } }),
      default: {
        description: 'The request failed.',
        content: { 'application/json': { schema: schemaOf(ErrorBody, 'output', schemas) } },
      },
    },
  };
}

/** The operation id, which generated clients use as the function name: `postSessionsByIdExecute`. */
function idOf({ method, path }: Route): string {
  // Distinguishes pages from API routes of the same name.
  const named = { '/': '/home', '/login': '/login-page' }[path] ?? path;
  const words = named
    .replace('/v1/', '/')
    .replaceAll('{', 'by-')
    .split(/[^a-zA-Z]+/);
  return [
    method.toLowerCase(),
    ...words.filter((word) => word !== '').map((word) => word[0]?.toUpperCase() + word.slice(1)),
  ].join('');
}

/** Lists the scope where OpenAPI has the roles that a call requires. */
function securityOf(auth: RouteAuth): JsonObject[] {
  if (auth.kind === 'public') return [];
  const scopes = auth.scope === undefined ? [] : [auth.scope];
  return [{ token: scopes }, { cookie: scopes }];
}

function whoMay(auth: RouteAuth): string {
  switch (auth.kind) {
    case 'public':
      return 'Needs no token.';
    case 'user':
      if (auth.scope === undefined) return 'Needs a token.';
      if (auth.scope === 'admin') return 'For administrators: needs a token with the scope `admin`.';
      return `Needs a token with the scope \`${auth.scope}\`.`;
    case 'session': {
      const right = `Needs the right to ${auth.right} the session`;
      return auth.scope === undefined ? `${right}.` : `${right}, and a token with the scope \`${auth.scope}\`.`;
    }
  }
}

function bodyOf({ body, consumes }: Route, schemas: JsonObject): JsonObject | undefined {
  if (consumes !== undefined) return { required: true, content: { [consumes]: { schema: {} } } };
  if (isNothing(body)) return undefined;
  const required = !body.safeParse(undefined).success;
  return { required, content: { 'application/json': { schema: schemaOf(body, 'input', schemas) } } };
}

/** The schema describes one line, or the data of one server-sent event. */
const STREAM_TYPES = ['application/x-ndjson', 'text/event-stream'];

function headersOf({ stream }: Route): JsonObject {
  if (!stream) return {};
  const description =
    'Of a stream: after this many milliseconds without an item, the server sends an empty line or a comment as a heartbeat.';
  return { headers: { [HEARTBEAT_HEADER]: { description, schema: { type: 'integer' } } } };
}

function contentOf({ response, stream, produces }: Route, schemas: JsonObject): JsonObject {
  const json = isNothing(response) ? [] : [['application/json', { schema: schemaOf(response, 'output', schemas) }]];
  const item = stream && {
    schema: { anyOf: [schemaOf(stream, 'output', schemas), schemaOf(ErrorItem, 'output', schemas)] },
  };
  const streamed = item ? STREAM_TYPES.map((type) => [type, item]) : [];
  const content = [...json, ...streamed, ...produces.map((type) => [type, { schema: {} }])];
  return content.length === 0 ? {} : { content: Object.fromEntries(content) };
}

function parametersOf(schema: z.ZodType, location: 'path' | 'query' | 'header', schemas: JsonObject): JsonObject[] {
  const { properties = {}, required = [] } = schemaOf(schema, 'input', schemas) as {
    properties?: Record<string, JsonObject>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...shape }]) => ({
    name,
    in: location,
    required: location === 'path' || required.includes(name),
    description,
    schema: shape,
  }));
}

/** OpenAPI 3.1 accepts JSON Schema unchanged. Named schemas go to the components. */
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
