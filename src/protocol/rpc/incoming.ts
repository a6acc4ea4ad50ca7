/** The calls of the other side: who works on which, how many at once, and what each is answered. */

import { z } from 'zod';
import { CellaError } from '../errors.ts';
import { toWire, wireFault } from './failure.ts';
import { RpcCode, RpcId, type RpcMessage, type WireError } from './message.ts';
import type { RpcMethod, RpcNotification } from './method.ts';

export interface CallContext {
  /** Aborted where the caller no longer waits, or has gone. */
  readonly signal: AbortSignal;
}

export interface IncomingPort {
  readonly inFlight: number;
  readonly onUnforeseen: (error: unknown, method: string) => void;
  /** Throws where it is too long to be sent. */
  sendResult(id: RpcId, result: unknown): Promise<void>;
  sendError(id: RpcId | null, error: WireError): Promise<void>;
}

type Request = Extract<RpcMessage, { kind: 'request' }>;
type Handler = (params: unknown, context: CallContext) => Promise<unknown>;

/** Tells the other side that nobody waits for a call any more. */
export const CANCEL = '$/cancelRequest';
const Cancel = { method: CANCEL, params: z.object({ id: RpcId }) };

export class Incoming {
  readonly #port: IncomingPort;
  readonly #handlers = new Map<string, Handler>();
  readonly #listeners = new Map<string, (params: unknown) => void>();
  readonly #working = new Map<RpcId, AbortController>();

  constructor(port: IncomingPort) {
    this.#port = port;
    this.on(Cancel, ({ id }) => this.#working.get(id)?.abort());
  }

  handle<P extends z.ZodType, R extends z.ZodType>(
    { method, params: schema, result }: RpcMethod<P, R>,
    handler: (params: z.output<P>, context: CallContext) => Promise<z.input<R>> | z.input<R>,
  ): void {
    this.#handlers.set(method, async (params, context) => {
      const parsed = schema.safeParse(params ?? {});
      if (!parsed.success) throw new BadParams(firstIssue(parsed.error));
      return result.parse(await handler(parsed.data, context));
    });
  }

  on<P extends z.ZodType>(
    { method, params: schema }: RpcNotification<P>,
    listener: (params: z.output<P>) => void,
  ): void {
    this.#listeners.set(method, (params) => {
      const parsed = schema.safeParse(params ?? {});
      if (parsed.success) listener(parsed.data);
    });
  }

  hear(method: string, params: unknown): void {
    try {
      this.#listeners.get(method)?.(params);
    } catch (error) {
      this.#port.onUnforeseen(error, method);
    }
  }

  /** A promise where it is refused, done when that is told. The handler itself is called before this returns. */
  begin(request: Request): Promise<void> | undefined {
    const { id, method } = request;
    const handler = this.#handlers.get(method);
    if (!handler) {
      const unknown = wireFault(RpcCode.methodNotFound, `There is no method ${JSON.stringify(method)}.`);
      return this.#port.sendError(id, unknown);
    }
    if (this.#working.has(id)) {
      return this.#port.sendError(null, wireFault(RpcCode.invalidRequest, 'A call with that id is under way.'));
    }
    if (this.#working.size >= this.#port.inFlight) {
      return this.#port.sendError(id, toWire(new CellaError('RATE_LIMITED', 'Too many calls are under way.')));
    }
    void this.#work(request, handler);
    return undefined;
  }

  stopAll(): void {
    for (const work of this.#working.values()) work.abort();
  }

  async #work({ id, method, params }: Request, handler: Handler): Promise<void> {
    const abort = new AbortController();
    this.#working.set(id, abort);
    try {
      const result = await handler(params, { signal: abort.signal });
      await this.#port.sendResult(id, result);
    } catch (error) {
      await this.#port.sendError(id, this.#told(error, method));
    } finally {
      this.#working.delete(id);
    }
  }

  #told(error: unknown, method: string): WireError {
    if (error instanceof BadParams) return wireFault(RpcCode.invalidParams, `${method}: ${error.message}.`);
    if (!(error instanceof CellaError)) this.#port.onUnforeseen(error, method);
    return toWire(error);
  }
}

/** Parameters that do not fit their schema. */
class BadParams extends Error {}

/** The first thing that is wrong, by its place: never with the value, which may be a secret. */
export function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  const place = issue?.path.map(String).join('.').slice(0, 200) ?? '';
  return `${place === '' ? '' : `${place}: `}${issue?.message ?? 'it cannot be read'}`;
}
