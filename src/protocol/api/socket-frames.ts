/** Frames of the WebSockets of sessions and terminals, besides events and bytes, and the codes that close them. */

import { z } from 'zod';
import { executeFields, IdempotencyKey } from '../execution-events.ts';
import { ErrorItem } from '../parse.ts';
import { PermissionDecision } from '../permission.ts';
import { SessionId } from '../session-info.ts';
import { PermissionId } from '../turn.ts';
import { TerminalSize } from '../workspace-models.ts';

/** Chosen by the client; the reply has the same id. */
const id = z.union([z.string().max(128), z.int()]);

export const ClientFrame = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('execute'), id, ...executeFields, idempotencyKey: IdempotencyKey.optional() }),
    z.strictObject({ type: z.literal('interrupt'), id }),
    z.strictObject({ type: z.literal('input'), id, request: z.int().min(0), text: z.string().max(1_000_000) }),
    z.strictObject({
      type: z.literal('cancel_input'),
      id,
      request: z.int().min(0),
      reason: z.string().max(500).optional(),
    }),
    z.strictObject({ type: z.literal('permission'), id, permission: PermissionId, decision: PermissionDecision }),
    z.strictObject({ type: z.literal('ping'), id }),
  ])
  .meta({ id: 'ClientFrame' });
/** Reads the id of a frame that is otherwise invalid, so that the error can name it. */
export const FrameId = z.object({ id });
export type ClientFrame = z.infer<typeof ClientFrame>;

export const HeartbeatFrame = z.object({ type: z.literal('heartbeat'), everyMs: z.int().min(1).max(3_600_000) }).meta({
  id: 'HeartbeatFrame',
  description:
    'A heartbeat, sent every `everyMs` milliseconds if nothing else waits to be sent. If nothing arrives for three times as long, the connection is broken, even if it looks open.',
});

/** Frames that the server sends in addition to events. `hello` is the first. */
export const ServerFrame = z
  .discriminatedUnion('type', [
    z.object({
      type: z.literal('hello'),
      session: SessionId,
      trimmedThrough: z.int().meta({ description: 'The number of the newest event that was removed.' }),
      last: z.int().meta({ description: 'The number of the newest event.' }),
      responder: z.int().optional().meta({
        description: 'The number of this responder, which it sends when it abstains; only with permissions=answer.',
      }),
    }),
    z
      .object({ type: z.literal('draining') })
      .meta({ description: 'The server accepts no new work; running work may still finish.' }),
    HeartbeatFrame,
    z.object({ type: z.literal('reply'), id, result: z.unknown() }),
    ErrorItem.extend({ id: id.optional() }).meta({ id: 'ErrorFrame' }),
  ])
  .meta({ id: 'ServerFrame' });
export type ServerFrame = z.infer<typeof ServerFrame>;

/** Why the server closed a WebSocket. Clients can reconnect and resume, except after `refused`, `gone` and `wrong`. */
export const CloseCode = {
  /** The server ends. */
  closing: 1012,
  /** A frame was too large. */
  tooLarge: 1009,
  failed: 1011,
  /** The client sent an invalid frame. */
  wrong: 4400,
  /** The token is no longer valid, or the session is no longer shared. */
  refused: 4401,
  /** The session was deleted. */
  gone: 4404,
  /** The client did not read. Nothing is lost. */
  slow: 4408,
  /** Another server owns the session. Reconnecting reaches it. */
  moved: 4421,
  /** The client sent too much. */
  tooMuch: 4429,
} as const;

/** Text frames from the client, in addition to typed bytes. */
export const TerminalClientFrame = z
  .strictObject({ type: z.literal('resize'), ...TerminalSize.shape })
  .meta({ id: 'TerminalClientFrame' });

/** Text frames from the server, in addition to output. `exit` is the last. `error` is about a frame or a failed start. */
export const TerminalServerFrame = z
  .union([
    z.object({ type: z.literal('exit'), code: z.int() }),
    z.object({ type: z.literal('exit'), signal: z.string() }),
    HeartbeatFrame,
    ErrorItem,
  ])
  .meta({ id: 'TerminalServerFrame' });

export type TerminalServerFrame = z.infer<typeof TerminalServerFrame>;

/** The largest binary frame that a client may send. */
export const MOST_TYPED_BYTES = 64 * 1024;
