/** JSON-RPC 2.0: parses one line into a message, describes methods, and carries errors across the connection. */

import { z } from 'zod';
import { type ErrorCode, errorCodes, isErrorCode } from './error-codes.ts';
import { CellaError } from './errors.ts';

export const RpcCode = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const;

export const RpcId = z.union([z.int(), z.string().max(128)]);
export type RpcId = z.infer<typeof RpcId>;

export const WireError = z.object({ code: z.int(), message: z.string(), data: z.unknown().optional() });
export type WireError = z.infer<typeof WireError>;

export type RpcMessage =
  | { readonly kind: 'request'; readonly id: RpcId; readonly method: string; readonly params: unknown }
  | { readonly kind: 'notification'; readonly method: string; readonly params: unknown }
  | { readonly kind: 'result'; readonly id: RpcId; readonly result: unknown }
  | { readonly kind: 'failure'; readonly id: RpcId | null; readonly error: WireError }
  /** Not a message. `id` is that of the request, if it is readable. */
  | { readonly kind: 'fault'; readonly id: RpcId | null; readonly code: number; readonly why: string };

/** Unknown members are ignored. */
const Envelope = z.object({
  jsonrpc: z.literal('2.0'),
  id: RpcId.nullish(),
  method: z.string().max(200).optional(),
  // Only looked at by the schema of the method: one for any names takes microseconds for each.
  params: z.custom<object>((value) => typeof value === 'object' && value !== null).optional(),
  result: z.unknown().optional(),
  error: WireError.optional(),
});

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Undefined for a blank line. */
export function parseMessage(line: Uint8Array): RpcMessage | undefined {
  let json: unknown;
  try {
    const text = utf8.decode(line);
    if (text.trim() === '') return undefined;
    json = JSON.parse(text);
  } catch {
    // The parser's error would quote the line, which may contain a secret.
    return { kind: 'fault', id: null, code: RpcCode.parse, why: 'The line is not JSON.' };
  }
  return classify(json);
}

function classify(json: unknown): RpcMessage {
  const parsed = Envelope.safeParse(json);
  if (!parsed.success) return invalidMessage(idOf(json), 'The line is not a JSON-RPC 2.0 message.');
  const { id, method, params, error } = parsed.data;
  const hasResult = Object.hasOwn(parsed.data, 'result');
  if (method !== undefined) {
    if (hasResult || error) return invalidMessage(id ?? null, 'A message is a call or a reply, not both.');
    if (id === null) return invalidMessage(null, 'A request has an id that is not null.');
    return id === undefined ? { kind: 'notification', method, params } : { kind: 'request', id, method, params };
  }
  if (error && !hasResult && id !== undefined) return { kind: 'failure', id, error };
  if (hasResult && !error && id !== undefined && id !== null) return { kind: 'result', id, result: parsed.data.result };
  return invalidMessage(null, 'The message is neither a call nor a reply.');
}

function invalidMessage(id: RpcId | null, why: string): RpcMessage {
  return { kind: 'fault', id, code: RpcCode.invalidRequest, why };
}

const Call = z.object({ id: RpcId, method: z.unknown().refine((method) => method !== undefined) });

/** The id of an invalid message. Only calls have one here: a reply is never answered. */
function idOf(json: unknown): RpcId | null {
  const call = Call.safeParse(json);
  return call.success ? call.data.id : null;
}

/** A request with its reply. */
export interface RpcMethod<P extends z.ZodType = z.ZodType, R extends z.ZodType = z.ZodType> {
  readonly method: string;
  readonly params: P;
  readonly result: R;
}

/** A message without a reply. */
export interface RpcNotification<P extends z.ZodType = z.ZodType> {
  readonly method: string;
  readonly params: P;
}

const MOST_CHARACTERS = 4000;
const MOST_DETAILS = 64 * 1024;

const CellaErrorData = z.object({
  code: z.string(),
  advice: z.string().max(MOST_CHARACTERS).optional(),
  details: z.record(z.string(), z.unknown()).optional(),
});

/** The message of an unexpected error is not sent: it may contain what the other side must not see. */
export function encodeError(error: unknown): WireError {
  if (!(error instanceof CellaError)) {
    const { rpc: code, advice } = errorCodes.INTERNAL;
    return { code, message: 'The call failed unexpectedly.', data: { code: 'INTERNAL', advice } };
  }
  const { code, advice } = error;
  const message = error.message.slice(0, MOST_CHARACTERS);
  return { code: errorCodes[code].rpc, message, data: { code, advice, details: sendable(error.details) } };
}

/** An error can always be sent: details that are too long, or not JSON, are left out. */
function sendable(details: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  try {
    return JSON.stringify(details).length > MOST_DETAILS ? {} : details;
  } catch {
    // A circle or a BigInt. The code and the message are enough.
    return {};
  }
}

/** An error of the protocol itself, with JSON-RPC's own number. */
export function protocolError(rpc: number, message: string): WireError {
  const code: ErrorCode = rpc === RpcCode.invalidParams ? 'INVALID_OPTIONS' : 'RUNNER_PROTOCOL';
  return { code: rpc, message, data: { code, advice: errorCodes.RUNNER_PROTOCOL.advice, details: { rpc } } };
}

export function decodeError({ code: rpc, message, data }: WireError): CellaError {
  const ours = CellaErrorData.safeParse(data);
  const known = ours.success && isErrorCode(ours.data.code) ? ours.data.code : undefined;
  const code = known ?? codeOf(rpc) ?? 'RUNNER_PROTOCOL';
  const { advice, details = {} } = ours.success ? ours.data : {};
  return new CellaError(code, message.slice(0, MOST_CHARACTERS), {
    details: known ? details : { ...details, rpc },
    advice: advice === errorCodes[code].advice ? undefined : advice,
  });
}

function codeOf(rpc: number): ErrorCode | undefined {
  return Object.keys(errorCodes)
    .filter(isErrorCode)
    .find((code) => errorCodes[code].rpc === rpc);
}
