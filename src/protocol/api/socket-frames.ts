/** Frames of the WebSockets of sessions and terminals, besides events and bytes, and the codes that close them. */

import { z } from 'zod';
import { ErrorItem } from '../error-body.ts';
import { executeFields, IdempotencyKey } from '../execution-events.ts';
import { PermissionDecision } from '../permission.ts';
import { SessionId } from '../session-info.ts';
import { PermissionId } from '../turn.ts';
import { TerminalSize } from '../workspace-models.ts';

/** The client's own word for what it asks; the reply has the same. */
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
    z.strictObject({
      type: z.literal('permission'),
      id,
      permission: PermissionId,
      decision: PermissionDecision,
    }),
    z.strictObject({ type: z.literal('ping'), id }),
  ])
  .meta({ id: 'ClientFrame' });
/** What a frame is called that is wrong otherwise. */
export const FrameId = z.object({ id });
export type ClientFrame = z.infer<typeof ClientFrame>;

/** What the server sends besides events. `hello` is the first. */
export const ServerFrame = z
  .discriminatedUnion('type', [
    z.object({
      type: z.literal('hello'),
      session: SessionId,
      trimmedThrough: z.int().meta({ description: 'The number of the last event that is no longer kept.' }),
      last: z.int().meta({ description: 'The number of the last event that there is.' }),
      responder: z
        .int()
        .optional()
        .meta({ description: 'Names this client when it abstains from a decision; only with permissions=answer.' }),
    }),
    z
      .object({ type: z.literal('stopping') })
      .meta({ description: 'The server takes no new work; what runs may still end.' }),
    z.object({ type: z.literal('reply'), id, result: z.unknown() }),
    ErrorItem.extend({ id: id.optional() }).meta({ id: 'ErrorFrame' }),
  ])
  .meta({ id: 'ServerFrame' });
export type ServerFrame = z.infer<typeof ServerFrame>;

/** Why a WebSocket was closed by the server. After all but `refused`, `gone` and `wrong`, connecting again goes on. */
export const CloseCode = {
  /** The server ends. */
  stopping: 1012,
  /** A frame was too large. */
  tooLarge: 1009,
  failed: 1011,
  /** What was sent is no frame. */
  wrong: 4400,
  /** The token is no longer good, or the session no longer shared. */
  refused: 4401,
  /** The session was deleted. */
  gone: 4404,
  /** It did not read what it was sent; nothing is lost. */
  slow: 4408,
  /** Another server has the session: whoever connects again gets there. */
  moved: 4421,
  /** It sent too much. */
  tooMuch: 4429,
} as const;

/** What a client says beside what is typed. */
export const TerminalClientFrame = z
  .strictObject({ type: z.literal('resize'), ...TerminalSize.shape })
  .meta({ id: 'TerminalClientFrame' });

/** What it is told beside what is shown. `exit` is the last; an `error` may be about a frame, or why it never began. */
export const TerminalServerFrame = z
  .union([
    z.object({ type: z.literal('exit'), code: z.int() }),
    z.object({ type: z.literal('exit'), signal: z.string() }),
    ErrorItem,
  ])
  .meta({ id: 'TerminalServerFrame' });

export type TerminalServerFrame = z.infer<typeof TerminalServerFrame>;

/** The largest binary frame that a client may send. */
export const MOST_TYPED_BYTES = 64 * 1024;
