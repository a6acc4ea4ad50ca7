/** One side of a JSON-RPC 2.0 connection over two byte streams: calls both ways, at once and in any order, every message checked. */

import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { onAbort } from '../lib/abort.ts';
import { inTurns, ownTurn } from '../lib/event-loop.ts';
import { isCheapToParse, MOST_RPC_EFFORT, SMALL_BYTES, scanInSteps } from '../lib/json-scanner.ts';
import { LineSplitter } from '../lib/line-splitter.ts';
import { CellaError } from './errors.ts';
import { firstProblem } from './parse.ts';
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

/** The two byte streams that a peer reads and writes, with backpressure. */
export interface RpcPort {
  /** Read once, to its end. */
  readonly input: AsyncIterable<Uint8Array>;
  /** Returns a promise if the caller should wait for room. It rejects if the reader is gone. */
  write(text: string): Promise<void> | undefined;
  /** Closes both directions. Idempotent. */
  close(): void;
}

export interface RpcPeerOptions {
  /** The longest message in either direction. Default: 8 MiB. */
  readonly frameBytes?: number;
  /** How many calls of the other side are handled at once. More are refused. Default: 256. */
  readonly inFlight?: number;
  /** How many invalid lines close the connection. Default: 100. */
  readonly faults?: number;
  /** Called for unexpected errors of handlers. They are not sent to the other side. */
  readonly onUnforeseen?: (error: unknown, method: string) => void;
}

const defaults = { frameBytes: 8 * 1024 * 1024, inFlight: 256, faults: 100, onUnforeseen: () => {} };

export class RpcPeer {
  readonly #port: RpcPort;
  readonly #options: Required<RpcPeerOptions>;
  readonly #incoming: RpcHandlers;
  readonly #pending = new Map<RpcId, PendingCall>();
  readonly #closed = Promise.withResolvers<CellaError>();
  #started = false;
  #end: CellaError | undefined;
  #lastId = 0;
  #faults = 0;

  constructor(port: RpcPort, options: RpcPeerOptions = {}) {
    this.#port = port;
    this.#options = { ...defaults, ...options };
    this.#incoming = new RpcHandlers({
      ...this.#options,
      sendResult: (id, result) => this.#write(this.#encode({ id, result })),
      sendError: (id, error) => this.#reply(id, error),
    });
  }

  /** Starts to read. Handlers are registered before. */
  start(): this {
    // Two readers would each get a part of what comes.
    if (!this.#started) void this.#read();
    this.#started = true;
    return this;
  }

  /** Handlers start in the order in which the calls came. */
  handle<P extends z.ZodType, R extends z.ZodType>(
    method: RpcMethod<P, R>,
    handler: (params: z.output<P>, context: CallContext) => Promise<z.input<R>> | z.input<R>,
  ): this {
    this.#incoming.handle(method, handler);
    return this;
  }

  /** Notifications that do not match the schema are dropped. */
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
    if (options.signal?.aborted) throw new CellaError('ABORTED', 'The call was aborted before it was sent.');
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
    const why = firstProblem(parsed.error);
    throw new CellaError('RUNNER_PROTOCOL', `The reply to ${method} is invalid: ${why}.`);
  }

  /** Resolves when there is room for more. Lost if the connection has ended. */
  async notify<P extends z.ZodType>({ method }: RpcNotification<P>, params: z.input<P>): Promise<void> {
    await this.#write(this.#encode({ method, params }));
  }

  /** Resolves with the reason when the connection has ended. */
  get closed(): Promise<CellaError> {
    return this.#closed.promise;
  }

  /** How many calls of this side wait for a reply. */
  get pendingCalls(): number {
    return this.#pending.size;
  }

  /** Pending calls fail with this reason, and running handlers are aborted. */
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
          if (!(await inTurns(scanInSteps(line.bytes, MOST_RPC_EFFORT))))
            return await this.#refuseLine('has too many parts or levels');
          // To parse a long line and to look at what is in it are steps with a turn of their own.
          const isLong = line.bytes.length > SMALL_BYTES;
          if (isLong) await ownTurn();
          const message = parseMessage(line.bytes);
          if (isLong) await ownTurn();
          // Waits only for refusals: a side that floods and does not read them is slowed down.
          if (message) await this.#take(message);
          if (this.#end) return;
        }
      }
      const within = lines.heldBytes > 0 ? ', in the middle of a message' : '';
      this.close(new CellaError('RUNNER_GONE', `The other side closed the connection${within}.`));
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

  /** Undefined if no call waits for this reply. */
  #settle(id: RpcId): PendingCall | undefined {
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    return call;
  }

  async #refuse({ id, code, why }: Extract<RpcMessage, { kind: 'fault' }>): Promise<void> {
    this.#faults += 1;
    await this.#reply(id, protocolError(code, why));
    if (this.#faults < this.#options.faults) return;
    this.close(new CellaError('RUNNER_PROTOCOL', `The other side sent ${this.#faults} lines that are not messages.`));
  }

  async #refuseLine(why: string): Promise<void> {
    await this.#reply(null, encodeError(new CellaError('TOO_LARGE', `A message ${why}.`)));
    this.close(new CellaError('RUNNER_PROTOCOL', `The other side sent a message that ${why}.`));
  }

  /** If the whole error does not fit into a message, only its number is sent. */
  async #reply(id: RpcId | null, error: WireError): Promise<void> {
    const whole = this.#line({ id, error });
    const bare = { code: error.code, message: 'The error is too long for a message.' };
    await this.#write(this.#fits(whole) ? whole : this.#line({ id, error: bare }));
  }

  #line(body: object): string {
    return `${JSON.stringify({ jsonrpc: '2.0', ...body })}\n`;
  }

  /** A UTF-16 code unit has at most three bytes, so most lines need not be measured. */
  #fits(line: string): boolean {
    const { frameBytes } = this.#options;
    return line.length * 3 <= frameBytes || Buffer.byteLength(line) <= frameBytes + 1;
  }

  #encode(body: object): string {
    const line = this.#line(body);
    const { frameBytes } = this.#options;
    if (this.#fits(line) && !isCheapToParse(line, MOST_RPC_EFFORT)) {
      throw new CellaError('TOO_LARGE', 'The message has too many parts or levels.');
    }
    if (this.#fits(line)) return line;
    throw new CellaError('TOO_LARGE', `The message is longer than ${frameBytes} bytes.`);
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

interface CallContext {
  /** Aborted when the caller no longer waits. */
  readonly signal: AbortSignal;
}

interface IncomingPort {
  readonly inFlight: number;
  readonly onUnforeseen: (error: unknown, method: string) => void;
  /** Throws if it is too long. */
  sendResult(id: RpcId, result: unknown): Promise<void>;
  sendError(id: RpcId | null, error: WireError): Promise<void>;
}

type IncomingRequest = Extract<RpcMessage, { kind: 'request' }>;
type Handler = (params: unknown, context: CallContext) => Promise<unknown>;

/** Says that the caller no longer waits for a call. */
const CANCEL = '$/cancelRequest';
const Cancel = { method: CANCEL, params: z.object({ id: RpcId }) };

export class RpcHandlers {
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
      if (!parsed.success) throw new BadParams(firstProblem(parsed.error));
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

  /** Returns a promise if the call is refused; it resolves when the refusal is written. Otherwise the handler was called. */
  begin(request: IncomingRequest): Promise<void> | undefined {
    const { id, method } = request;
    const handler = this.#handlers.get(method);
    if (!handler) {
      const unknown = protocolError(RpcCode.methodNotFound, `There is no method ${JSON.stringify(method)}.`);
      return this.#port.sendError(id, unknown);
    }
    if (this.#working.has(id)) {
      return this.#port.sendError(
        null,
        protocolError(RpcCode.invalidRequest, 'A call with this id is already running.'),
      );
    }
    if (this.#working.size >= this.#port.inFlight) {
      return this.#port.sendError(id, encodeError(new CellaError('RATE_LIMITED', 'Too many calls are running.')));
    }
    void this.#work(request, handler);
    return undefined;
  }

  stopAll(): void {
    for (const work of this.#working.values()) work.abort();
  }

  async #work({ id, method, params }: IncomingRequest, handler: Handler): Promise<void> {
    const abort = new AbortController();
    this.#working.set(id, abort);
    try {
      const result = await handler(params, { signal: abort.signal });
      await this.#port.sendResult(id, result);
    } catch (error) {
      await this.#port.sendError(id, this.#toWireError(error, method));
    } finally {
      this.#working.delete(id);
    }
  }

  #toWireError(error: unknown, method: string): WireError {
    if (error instanceof BadParams) return protocolError(RpcCode.invalidParams, `${method}: ${error.message}.`);
    if (!(error instanceof CellaError)) this.#port.onUnforeseen(error, method);
    return encodeError(error);
  }
}

/** Parameters that do not match the schema. */
class BadParams extends Error {}

export interface CallOptions {
  /** No limit if undefined: the call then waits as long as the connection lives. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The longest timer of Node. */
const LONGEST_MS = 2 ** 31 - 1;

export class PendingCall {
  readonly #outcome = Promise.withResolvers<unknown>();
  readonly #onAbandoned: () => void;
  readonly #aborting: Disposable | undefined;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(method: string, { timeoutMs, signal }: CallOptions, onAbandoned: () => void) {
    this.#onAbandoned = onAbandoned;
    if (timeoutMs !== undefined && timeoutMs <= LONGEST_MS) {
      const late = () =>
        this.#abandon(new CellaError('DEADLINE_EXCEEDED', `${method} was not answered within ${timeoutMs} ms.`));
      this.#timer = setTimeout(late, timeoutMs);
    }
    const onAborted = () => this.#abandon(new CellaError('ABORTED', 'The call was aborted.'));
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

  #abandon(error: CellaError): void {
    this.reject(error);
    this.#onAbandoned();
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#aborting?.[Symbol.dispose]();
  }
}

/** Writes to a stream with backpressure. Lines of one tick go out in one system call. */
export function writerOf(output: Writable): RpcPort['write'] {
  let room: PromiseWithResolvers<void> | undefined;
  let broken: CellaError | undefined;
  let corked = false;

  const settle = (): void => {
    const waiting = room;
    room = undefined;
    if (broken) waiting?.reject(broken);
    else waiting?.resolve();
  };
  const fail = (cause?: unknown): void => {
    broken ??= new CellaError('RUNNER_GONE', 'The other side of the connection no longer reads.', { cause });
    settle();
  };
  output.on('drain', settle);
  output.on('error', fail);
  output.on('close', () => fail());

  const cork = (): void => {
    if (corked) return;
    corked = true;
    output.cork();
    process.nextTick(() => {
      corked = false;
      output.uncork();
    });
  };

  return (text) => {
    if (broken) return Promise.reject(broken);
    cork();
    if (output.write(text)) return undefined;
    room ??= Promise.withResolvers<void>();
    return room.promise;
  };
}

/** For the stdin and stdout of a child, or of this process. */
export function portOfStreams(input: Readable, output: Writable): RpcPort {
  return {
    input,
    write: writerOf(output),
    close() {
      output.end();
      input.destroy();
    },
  };
}
