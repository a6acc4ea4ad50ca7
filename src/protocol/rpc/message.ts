/** One line of JSON-RPC 2.0: what kind of message it is, or what is wrong with it. */

import { z } from 'zod';

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
  /** No message: `id` is that of the request, where it can be told. */
  | { readonly kind: 'fault'; readonly id: RpcId | null; readonly code: number; readonly why: string };

/** Members that JSON-RPC does not have are let pass. */
const Envelope = z.object({
  jsonrpc: z.literal('2.0'),
  id: RpcId.nullish(),
  method: z.string().max(200).optional(),
  params: z.record(z.string(), z.unknown()).or(z.array(z.unknown())).optional(),
  result: z.unknown().optional(),
  error: WireError.optional(),
});

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Undefined for a line with nothing in it. */
export function parseMessage(line: Uint8Array): RpcMessage | undefined {
  let json: unknown;
  try {
    const text = utf8.decode(line);
    if (text.trim() === '') return undefined;
    json = JSON.parse(text);
  } catch {
    // The reason would quote what was sent, which may be a secret that went astray.
    return { kind: 'fault', id: null, code: RpcCode.parse, why: 'The line is not JSON.' };
  }
  return classify(json);
}

function classify(json: unknown): RpcMessage {
  const parsed = Envelope.safeParse(json);
  if (!parsed.success) return invalid(idOf(json), 'The line is no JSON-RPC 2.0 message.');
  const { id, method, params, error } = parsed.data;
  const hasResult = Object.hasOwn(parsed.data, 'result');
  if (method !== undefined) {
    if (hasResult || error) return invalid(id ?? null, 'A message is a call or a reply, not both.');
    if (id === null) return invalid(null, 'A request has an id that is not null.');
    return id === undefined ? { kind: 'notification', method, params } : { kind: 'request', id, method, params };
  }
  if (error && !hasResult && id !== undefined) return { kind: 'failure', id, error };
  if (hasResult && !error && id !== undefined && id !== null) return { kind: 'result', id, result: parsed.data.result };
  return invalid(null, 'The message has no method, and is no reply.');
}

function invalid(id: RpcId | null, why: string): RpcMessage {
  return { kind: 'fault', id, code: RpcCode.invalidRequest, why };
}

const Call = z.object({ id: RpcId, method: z.unknown().refine((method) => method !== undefined) });

/** Of a message that is wrong otherwise. A reply is never answered, so only a call's counts. */
function idOf(json: unknown): RpcId | null {
  const call = Call.safeParse(json);
  return call.success ? call.data.id : null;
}
