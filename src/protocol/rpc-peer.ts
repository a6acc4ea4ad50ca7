/** One side of a JSON-RPC 2.0 connection: calls both ways, at once and in any order, every message checked. */

import { z } from 'zod';
import { onAbort } from '../lib/abort.ts';
import { isCheapToParse } from '../lib/json-scanner.ts';
import { LineSplitter } from '../lib/line-splitter.ts';
import { CellaError } from './errors.ts';
import {
  decodeError,
  encodeError,
  parseMessage,
  protocolError,
  RpcCode,
  RpcId,
  type RpcMessage,
  type RpcMethod,
  type RpcNotification,
  type WireError,
} from './rpc-message.ts';
import type { RpcPort } from './rpc-streams.ts';

export interface RpcPeerOptions {
  /** The longest message, either way: 8 MiB. */
  readonly frameBytes?: number;
  /** How many calls of the other side may be worked on at once; what is over it is refused: 256. */
  readonly inFlight?: number;
  /** How many lines may be no message before the connection is given up: 100. */
  readonly faults?: number;
  /** What a handler threw that is not an error of ours: the other side is not told. */
  readonly onUnforeseen?: (error: unknown, method: string) => void;
}

const defaults = { frameBytes: 8 * 1024 * 1024, inFlight: 256, faults: 100, onUnforeseen: () => {} };

export class RpcPeer {
  readonly #port: RpcPort;
  readonly #options: Required<RpcPeerOptions>;
  readonly #incoming: IncomingCalls;
  readonly #pending = new Map<RpcId, PendingCall>();
  readonly #closed = Promise.withResolvers<CellaError>();
  #end: CellaError | undefined;
  #lastId = 0;
  #faults = 0;

  constructor(port: RpcPort, options: RpcPeerOptions = {}) {
    this.#port = port;
    this.#options = { ...defaults, ...options };
    this.#incoming = new IncomingCalls({
      ...this.#options,
      sendResult: (id, result) => this.#write(this.#encode({ id, result })),
      sendError: (id, error) => this.#reply(id, error),
    });
  }

  /** Begins to read: whatever is handled is registered before. */
  start(): this {
    void this.#read();
    return this;
  }

  /** Handlers begin in the order in which the calls came. */
  handle<P extends z.ZodType, R extends z.ZodType>(
    method: RpcMethod<P, R>,
    handler: (params: z.output<P>, context: CallContext) => Promise<z.input<R>> | z.input<R>,
  ): this {
    this.#incoming.handle(method, handler);
    return this;
  }

  /** What does not fit the schema is left out: nobody waits to be told. */
  on<P extends z.ZodType>(notification: RpcNotification<P>, listener: (params: z.output<P>) => void): this {
    this.#incoming.on(notification, listener);
    return this;
  }

  async call<P extends z.ZodType, R extends z.ZodType>(
    { method, result }: RpcMethod<P, R>,
    params: z.input<P>,
    options: CallOptions = {},
  ): Promise<z.output<R>> {
    if (this.#end) throw this.#end;
    if (options.signal?.aborted) throw new CellaError('ABORTED', 'The caller had given up before the call.');
    const id = ++this.#lastId;
    const line = this.#encode({ id, method, params });
    const call = new PendingCall(method, options, () => {
      this.#pending.delete(id);
      void this.#write(this.#encode({ method: CANCEL, params: { id } }));
    });
    this.#pending.set(id, call);
    void this.#write(line);
    const parsed = result.safeParse(await call.outcome);
    if (parsed.success) return parsed.data;
    const why = describeFirstIssue(parsed.error);
    throw new CellaError('RUNNER_PROTOCOL', `The answer to ${method} is not what it should be: ${why}.`);
  }

  /** Resolves when there is room for more. What nobody can read any more is lost. */
  async notify<P extends z.ZodType>({ method }: RpcNotification<P>, params: z.input<P>): Promise<void> {
    await this.#write(this.#encode({ method, params }));
  }

  /** Why it ended, once it has. */
  get closed(): Promise<CellaError> {
    return this.#closed.promise;
  }

  /** Calls of ours that wait for their answer. */
  get pendingCalls(): number {
    return this.#pending.size;
  }

  /** Fails what waits, and tells what works on a call to stop. */
  close(reason = new CellaError('RUNNER_GONE', 'The connection was closed on this side.')): void {
    if (this.#end) return;
    this.#end = reason;
    this.#port.close();
    for (const call of this.#pending.values()) call.reject(reason);
    this.#pending.clear();
    this.#incoming.stopAll();
    this.#closed.resolve(reason);
  }

  async #read(): Promise<void> {
    const lines = new LineSplitter(this.#options.frameBytes);
    try {
      for await (const chunk of this.#port.input) {
        for (const line of lines.push(chunk)) {
          if (line.kind === 'cut') return await this.#refuseLine(`is too long, over ${this.#options.frameBytes} bytes`);
          if (!isCheapToParse(line.bytes)) return await this.#refuseLine('has too many parts, or is too deep');
          const message = parseMessage(line.bytes);
          // Only refusals are waited for: whoever floods is slowed down by what it does not read.
          if (message) await this.#take(message);
          if (this.#end) return;
        }
      }
      const within = lines.heldBytes > 0 ? ', in the middle of a message' : '';
      this.close(new CellaError('RUNNER_GONE', `The other side has ended the connection${within}.`));
    } catch (cause) {
      this.close(broken(cause));
    }
  }

  #take(message: RpcMessage): Promise<void> | undefined {
    switch (message.kind) {
      case 'request':
        return this.#incoming.begin(message);
      case 'notification':
        this.#incoming.notify(message.method, message.params);
        return undefined;
      case 'result':
        this.#settle(message.id)?.resolve(message.result);
        return undefined;
      case 'failure':
        if (message.id !== null) this.#settle(message.id)?.reject(decodeError(message.error));
        return undefined;
      case 'fault':
        return this.#refuse(message);
    }
  }

  /** Undefined for an answer to what was never asked, or is no longer waited for. */
  #settle(id: RpcId): PendingCall | undefined {
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    return call;
  }

  async #refuse({ id, code, why }: Extract<RpcMessage, { kind: 'fault' }>): Promise<void> {
    this.#faults += 1;
    await this.#reply(id, protocolError(code, why));
    if (this.#faults < this.#options.faults) return;
    this.close(new CellaError('RUNNER_PROTOCOL', `The other side sent ${this.#faults} lines that are no messages.`));
  }

  async #refuseLine(why: string): Promise<void> {
    await this.#reply(null, encodeError(new CellaError('TOO_LARGE', `A message ${why}.`)));
    this.close(new CellaError('RUNNER_PROTOCOL', `The other side sent a message that ${why}.`));
  }

  /** An error is always told: where the limit is so small that its words do not fit, by its number. */
  async #reply(id: RpcId | null, error: WireError): Promise<void> {
    const whole = this.#line({ id, error });
    const bare = { code: error.code, message: 'The reason is longer than a message may be.' };
    await this.#write(this.#fits(whole) ? whole : this.#line({ id, error: bare }));
  }

  #line(body: object): string {
    return `${JSON.stringify({ jsonrpc: '2.0', ...body })}\n`;
  }

  /** No character takes more than three bytes: most lines need not be measured. */
  #fits(line: string): boolean {
    const { frameBytes } = this.#options;
    return line.length * 3 <= frameBytes || Buffer.byteLength(line) <= frameBytes + 1;
  }

  #encode(body: object): string {
    const line = this.#line(body);
    const { frameBytes } = this.#options;
    if (this.#fits(line) && !isCheapToParse(line)) {
      throw new CellaError('TOO_LARGE', 'The message has more parts than can be sent, or is too deep.');
    }
    if (this.#fits(line)) return line;
    throw new CellaError('TOO_LARGE', `The message is longer than the ${frameBytes} bytes that can be sent.`);
  }

  async #write(line: string): Promise<void> {
    if (this.#end) return;
    try {
      await this.#port.write(line);
    } catch (cause) {
      this.close(cause instanceof CellaError ? cause : broken(cause));
    }
  }
}

function broken(cause: unknown): CellaError {
  return new CellaError('RUNNER_GONE', 'The connection to the other side broke.', { cause });
}

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

export class IncomingCalls {
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
      if (!parsed.success) throw new BadParams(describeFirstIssue(parsed.error));
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

  notify(method: string, params: unknown): void {
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
      const unknown = protocolError(RpcCode.methodNotFound, `There is no method ${JSON.stringify(method)}.`);
      return this.#port.sendError(id, unknown);
    }
    if (this.#working.has(id)) {
      return this.#port.sendError(null, protocolError(RpcCode.invalidRequest, 'A call with that id is under way.'));
    }
    if (this.#working.size >= this.#port.inFlight) {
      return this.#port.sendError(id, encodeError(new CellaError('RATE_LIMITED', 'Too many calls are under way.')));
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
    if (error instanceof BadParams) return protocolError(RpcCode.invalidParams, `${method}: ${error.message}.`);
    if (!(error instanceof CellaError)) this.#port.onUnforeseen(error, method);
    return encodeError(error);
  }
}

/** Parameters that do not fit their schema. */
class BadParams extends Error {}

/** The first thing that is wrong, by its place: never with the value, which may be a secret. */
export function describeFirstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  const place = issue?.path.map(String).join('.').slice(0, 200) ?? '';
  return `${place === '' ? '' : `${place}: `}${issue?.message ?? 'it cannot be read'}`;
}

export interface CallOptions {
  /** The caller's, which is that of its task: a call that names none waits for as long as the connection lives. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a timer can wait for. */
const LONGEST_MS = 2 ** 31 - 1;

export class PendingCall {
  readonly #outcome = Promise.withResolvers<unknown>();
  readonly #onGivenUp: () => void;
  readonly #aborting: Disposable | undefined;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(method: string, { timeoutMs, signal }: CallOptions, onGivenUp: () => void) {
    this.#onGivenUp = onGivenUp;
    if (timeoutMs !== undefined && timeoutMs <= LONGEST_MS) {
      const late = () =>
        this.#giveUp(new CellaError('DEADLINE_EXCEEDED', `${method} was not answered within ${timeoutMs} ms.`));
      this.#timer = setTimeout(late, timeoutMs);
    }
    const onAborted = () => this.#giveUp(new CellaError('ABORTED', 'The caller no longer waits for the answer.'));
    this.#aborting = onAbort(signal, onAborted);
  }

  get outcome(): Promise<unknown> {
    return this.#outcome.promise;
  }

  resolve(result: unknown): void {
    this.#release();
    this.#outcome.resolve(result);
  }

  reject(error: CellaError): void {
    this.#release();
    this.#outcome.reject(error);
  }

  #giveUp(error: CellaError): void {
    this.reject(error);
    this.#onGivenUp();
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#aborting?.[Symbol.dispose]();
  }
}
