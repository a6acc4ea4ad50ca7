/** Routes that run code and follow it: execute, events, output files, terminals and MCP. */

import { z } from 'zod';
import { ExecutionResult, executeFields, IdempotencyKey } from '../execution-events.ts';
import { ExecutionId, FeedItem } from '../session-events.ts';
import { SessionId } from '../session-info.ts';
import { TurnId } from '../turn.ts';
import { TerminalArgv, TerminalSize } from '../workspace-models.ts';
import { mayUse, mayView, route } from './route.ts';

const executionTag = 'Execution';
const streams = ['application/x-ndjson', 'text/event-stream'];

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

export const ExecuteCode = route('post /v1/sessions/{id}/execute', executionTag, mayUse, {
  summary: 'Run code: one JSON result, or its events as they come, by Accept. Idempotency-Key makes a retry run once',
  audit: 'session.execute',
  headers: Idempotent,
  body: ExecuteBody,
  result: Executed,
  gives: streams,
});

export const InterruptCode = route('post /v1/sessions/{id}/interrupt', executionTag, mayUse, {
  summary: 'Stop what runs with KeyboardInterrupt; with idempotencyKey only that execution, also where it still waits',
  audit: 'session.interrupt',
  whileStopping: true,
  body: z.strictObject({ idempotencyKey: IdempotencyKey.optional() }).prefault({}),
  result: z.object({ interrupted: z.boolean() }),
});

export const AnswerInput = route('post /v1/sessions/{id}/input', executionTag, mayUse, {
  summary: 'Answer input() or getpass(), or refuse to; the first answer wins',
  audit: 'session.input',
  whileStopping: true,
  body: z.union([
    z.strictObject({ request: z.int().min(0), text: z.string().max(1_000_000) }),
    z.strictObject({ request: z.int().min(0), cancel: z.literal(true), reason: z.string().max(500).optional() }),
  ]),
});

const EventsQuery = z.strictObject({
  after: z.coerce
    .number()
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .meta({ description: 'The number of the last event that you have.' }),
  limit: z.coerce.number().int().min(1).max(10_000).default(1000),
  execution: ExecutionId.optional(),
  turn: TurnId.optional(),
});

export const ReadEvents = route('get /v1/sessions/{id}/events', executionTag, mayView, {
  summary: 'Events after a number: a page as JSON, or these and all that follow as a stream, by Accept',
  query: EventsQuery,
  result: z.object({
    events: z.array(FeedItem),
    /** The number of the last event that is gone. */
    floor: z.int(),
    /** The number of the last event that there is. */
    last: z.int(),
    next: z.int().meta({
      description:
        'For `after`: the last event looked at. One call looks through 10,000; go on while it is below `last`.',
    }),
  }),
  gives: streams,
});

export const FollowEvents = route('get /v1/sessions/{id}/ws', executionTag, mayView, {
  summary: 'A WebSocket: events after a number and all that follow; execute, interrupt and input as frames',
  socket: true,
  query: z.strictObject({
    after: EventsQuery.shape.after,
    permissions: z.literal('answer').optional().meta({
      description: 'Somebody decides here; where nobody is, tools of code that require approval are refused.',
    }),
  }),
});

export const ReadOutput = route('get /v1/sessions/{id}/outputs/{file}', executionTag, mayView, {
  summary: 'What was too large for an event',
  params: z.object({ id: SessionId, file: z.string().min(1).max(200) }),
  query: z.strictObject({ offset: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0) }),
  gives: ['application/octet-stream'],
});

const side = (schema: z.ZodType<number, number>, otherwise: number) =>
  z.coerce.number().pipe(schema).default(otherwise);

export const OpenTerminal = route('get /v1/sessions/{id}/terminal', 'Terminal', mayUse, {
  summary: 'A WebSocket: a terminal in the sandbox of the session. Binary frames are bytes, texts are JSON',
  audit: 'terminal.open',
  socket: true,
  whileStopping: false,
  query: z.strictObject({
    cols: side(TerminalSize.shape.cols, 80),
    rows: side(TerminalSize.shape.rows, 24),
    argv: z
      .union([z.string().transform((word) => [word]), z.array(z.string())])
      .pipe(TerminalArgv)
      .optional()
      .meta({ description: 'The program and its arguments, one each; without it the shell that there is.' }),
  }),
});

const mcpTag = 'MCP';
const mcpStreams = ['application/json', 'text/event-stream'];

export const PostMcp = route('post /v1/sessions/{id}/mcp', mcpTag, mayUse, {
  summary: 'A message of an MCP client (streamable HTTP)',
  audit: 'session.mcp',
  takes: 'application/json',
  gives: mcpStreams,
});

export const GetMcp = route('get /v1/sessions/{id}/mcp', mcpTag, mayUse, {
  summary: 'What the MCP server tells by itself',
  gives: mcpStreams,
});

export const DeleteMcp = route('delete /v1/sessions/{id}/mcp', mcpTag, mayUse, {
  summary: 'The end of a connection of an MCP client',
  whileStopping: true,
  gives: mcpStreams,
});
