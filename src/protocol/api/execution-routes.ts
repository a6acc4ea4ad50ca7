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
    .meta({ description: 'Interrupt the code if the client disconnects. By default, it keeps running.' }),
});

/** How one execution ended, and the range of its events. */
export const Executed = ExecutionResult.extend({
  execution: ExecutionId,
  firstSeq: z.int(),
  /** Whether an earlier request with the same Idempotency-Key started it. */
  replayed: z.boolean(),
}).meta({ id: 'Executed' });
export type Executed = z.infer<typeof Executed>;

/** The header of requests that may be retried. */
export const Idempotent = z.object({
  'Idempotency-Key': IdempotencyKey.optional().meta({
    description: 'Any text that you choose: requests with the same key run the code once.',
  }),
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
    summary:
      'Run code: one JSON result, or a stream of events, by Accept. With an Idempotency-Key, a retry does not run the code again',
    audit: { name: 'session.execute', buffered: true },
    headers: Idempotent,
    body: ExecuteBody,
    response: Executed,
    stream: StreamItem,
  }),

  interruptCode: route('POST /v1/sessions/{id}/interrupt', 'Execution', {
    auth: session('use'),
    summary:
      'Interrupt running code (KeyboardInterrupt); with idempotencyKey, only that execution, even if it is still in the queue',
    audit: { name: 'session.interrupt', buffered: true },
    whileDraining: true,
    body: z.strictObject({ idempotencyKey: IdempotencyKey.optional() }).prefault({}),
    response: z.object({ interrupted: z.boolean() }),
  }),

  answerInput: route('POST /v1/sessions/{id}/input', 'Execution', {
    auth: session('use'),
    summary: 'Answer or cancel a pending input(); the first answer counts',
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
    summary: 'Read events after a number: a page as JSON, or a stream of these and new events, by Accept',
    query: EventsQuery,
    headers: z.object({
      'Last-Event-ID': z
        .string()
        .optional()
        .meta({ description: 'The same as `after`, and used instead of it; browsers send it when they reconnect.' }),
    }),
    response: z.object({
      events: z.array(StreamItem),
      trimmedThrough: z.int().meta({ description: 'The number of the newest event that was removed.' }),
      last: z.int().meta({ description: 'The number of the newest event.' }),
      next: z.int().meta({
        description:
          'For `after`: the last event that was checked. One call checks 10,000; continue while this is below `last`.',
      }),
    }),
    stream: StreamItem,
  }),

  followEvents: route('GET /v1/sessions/{id}/ws', 'Execution', {
    auth: session('view'),
    summary:
      'Follow a session on a WebSocket: events after a number and new ones; send code, interrupts and input as frames',
    socket: { client: ClientFrame, server: z.union([ServerFrame, StreamItem]) },
    query: z.strictObject({
      after: EventsQuery.shape.after,
      permissions: z.literal('answer').optional().meta({
        description:
          '`answer`: this client is a responder. Without any responder, calls of tools that require approval are refused.',
      }),
    }),
  }),

  readOutput: route('GET /v1/sessions/{id}/outputs/{file}', 'Execution', {
    auth: session('view'),
    summary: 'Read output that was too large for an event',
    params: z.object({ id: SessionId, file: z.string().min(1).max(200) }),
    query: z.strictObject({ offset: queryInt().min(0).max(Number.MAX_SAFE_INTEGER).default(0) }),
    produces: ['application/octet-stream'],
  }),
};

export const terminalRoutes = {
  openTerminal: route('GET /v1/sessions/{id}/terminal', 'Terminal', {
    auth: session('use'),
    summary:
      'Open a terminal in the sandbox of the session, as a WebSocket. Binary frames are bytes, text frames are JSON',
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
        .meta({ description: 'The program and its arguments, one parameter each. Default: a shell.' }),
    }),
  }),
};

export const mcpRoutes = {
  postMcp: route('POST /v1/sessions/{id}/mcp', 'MCP', {
    auth: session('use'),
    summary: 'Send a message to the MCP server (streamable HTTP)',
    audit: 'session.mcp',
    consumes: 'application/json',
    produces: mcpStreams,
  }),

  getMcp: route('GET /v1/sessions/{id}/mcp', 'MCP', {
    auth: session('use'),
    summary: 'Stream messages that the MCP server sends on its own',
    produces: mcpStreams,
  }),

  deleteMcp: route('DELETE /v1/sessions/{id}/mcp', 'MCP', {
    auth: session('use'),
    summary: 'End an MCP client session',
    whileDraining: true,
    produces: mcpStreams,
  }),
};
