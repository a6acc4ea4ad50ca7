/** Routes that run code and follow it: execute, events, output files, terminals and MCP. */

import { z } from 'zod';
import { ExecutionResult, executeFields, IdempotencyKey } from '../execution-events.ts';
import { ExecutionId, StreamItem } from '../session-events.ts';
import { SessionId } from '../session-info.ts';
import { TurnId } from '../turn.ts';
import { TerminalArgv, TerminalSize } from '../workspace-models.ts';
import { queryInt, route, session } from './route.ts';
import { ClientFrame, ServerFrame, TerminalClientFrame, TerminalServerFrame } from './socket-frames.ts';

const ExecuteBody = z.strictObject({
  ...executeFields,
  stopWhenGone: z
    .boolean()
    .optional()
    .meta({ description: 'Interrupts the code where the client goes away. Otherwise it goes on.' }),
});

/** How one execution ended, and which events are its own. */
export const Executed = ExecutionResult.extend({
  execution: ExecutionId,
  firstSeq: z.int(),
  /** Whether an earlier request with the same Idempotency-Key started it. */
  replayed: z.boolean(),
}).meta({ id: 'Executed' });
export type Executed = z.infer<typeof Executed>;

/** The header of what may be sent again. */
export const Idempotent = z.object({
  'Idempotency-Key': IdempotencyKey.optional().meta({ description: 'Of your choice: what has it runs once.' }),
});

const EventsQuery = z.strictObject({
  after: queryInt()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .meta({ description: 'The number of the last event that you have.' }),
  limit: queryInt().min(1).max(10_000).default(1000),
  execution: ExecutionId.optional(),
  turn: TurnId.optional(),
});

const side = (schema: z.ZodType<number, number>, otherwise: number) =>
  z.coerce.number<number>().pipe(schema).default(otherwise);

const mcpStreams = ['application/json', 'text/event-stream'];

export const executionRoutes = {
  executeCode: route('POST /v1/sessions/{id}/execute', 'Execution', {
    auth: session('use'),
    summary: 'Run code: one JSON result, or its events as they come, by Accept. Idempotency-Key makes a retry run once',
    audit: { name: 'session.execute', buffered: true },
    headers: Idempotent,
    body: ExecuteBody,
    response: Executed,
    stream: StreamItem,
  }),

  interruptCode: route('POST /v1/sessions/{id}/interrupt', 'Execution', {
    auth: session('use'),
    summary:
      'Stop what runs with KeyboardInterrupt; with idempotencyKey only that execution, also where it still waits',
    audit: { name: 'session.interrupt', buffered: true },
    whileDraining: true,
    body: z.strictObject({ idempotencyKey: IdempotencyKey.optional() }).prefault({}),
    response: z.object({ interrupted: z.boolean() }),
  }),

  answerInput: route('POST /v1/sessions/{id}/input', 'Execution', {
    auth: session('use'),
    summary: 'Answer input() or getpass(), or refuse to; the first answer wins',
    audit: { name: 'session.input', buffered: true },
    whileDraining: true,
    body: z.union([
      z.strictObject({ request: z.int().min(0), text: z.string().max(1_000_000) }),
      z.strictObject({ request: z.int().min(0), cancel: z.literal(true), reason: z.string().max(500).optional() }),
    ]),
  }),
};

export const eventRoutes = {
  readEvents: route('GET /v1/sessions/{id}/events', 'Execution', {
    auth: session('view'),
    summary: 'Events after a number: a page as JSON, or these and all that follow as a stream, by Accept',
    query: EventsQuery,
    headers: z.object({
      'Last-Event-ID': z.string().optional().meta({ description: 'As `after`, which it replaces: browsers send it.' }),
    }),
    response: z.object({
      events: z.array(StreamItem),
      trimmedThrough: z.int().meta({ description: 'The number of the last event that is no longer kept.' }),
      last: z.int().meta({ description: 'The number of the last event that there is.' }),
      next: z.int().meta({
        description:
          'For `after`: the last event looked at. One call looks through 10,000; go on while it is below `last`.',
      }),
    }),
    stream: StreamItem,
  }),

  followEvents: route('GET /v1/sessions/{id}/ws', 'Execution', {
    auth: session('view'),
    summary: 'A WebSocket: events after a number and all that follow; execute, interrupt and input as frames',
    socket: { client: ClientFrame, server: z.union([ServerFrame, StreamItem]) },
    query: z.strictObject({
      after: EventsQuery.shape.after,
      permissions: z.literal('answer').optional().meta({
        description: 'Somebody decides here; where nobody is, tools of code that require approval are refused.',
      }),
    }),
  }),

  readOutput: route('GET /v1/sessions/{id}/outputs/{file}', 'Execution', {
    auth: session('view'),
    summary: 'What was too large for an event',
    params: z.object({ id: SessionId, file: z.string().min(1).max(200) }),
    query: z.strictObject({ offset: queryInt().min(0).max(Number.MAX_SAFE_INTEGER).default(0) }),
    produces: ['application/octet-stream'],
  }),
};

export const terminalRoutes = {
  openTerminal: route('GET /v1/sessions/{id}/terminal', 'Terminal', {
    auth: session('use'),
    summary: 'A WebSocket: a terminal in the sandbox of the session. Binary frames are bytes, texts are JSON',
    audit: 'terminal.open',
    socket: { client: TerminalClientFrame, server: TerminalServerFrame },
    whileDraining: false,
    query: z.strictObject({
      cols: side(TerminalSize.shape.cols, 80),
      rows: side(TerminalSize.shape.rows, 24),
      argv: z
        .union([z.string().transform((word) => [word]), z.array(z.string())])
        .pipe(TerminalArgv)
        .optional()
        .meta({ description: 'The program and its arguments, one each; without it the shell that there is.' }),
    }),
  }),
};

export const mcpRoutes = {
  postMcp: route('POST /v1/sessions/{id}/mcp', 'MCP', {
    auth: session('use'),
    summary: 'A message of an MCP client (streamable HTTP)',
    audit: 'session.mcp',
    consumes: 'application/json',
    produces: mcpStreams,
  }),

  getMcp: route('GET /v1/sessions/{id}/mcp', 'MCP', {
    auth: session('use'),
    summary: 'What the MCP server tells by itself',
    produces: mcpStreams,
  }),

  deleteMcp: route('DELETE /v1/sessions/{id}/mcp', 'MCP', {
    auth: session('use'),
    summary: 'The end of a connection of an MCP client',
    whileDraining: true,
    produces: mcpStreams,
  }),
};
