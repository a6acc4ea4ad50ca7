/**
 * The model gateway. An agent calls it like the provider, with its session token in place of the key. The gateway inserts
 * the key, which only the server knows, relays the answer, records the usage and enforces budgets.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Provider } from '../../protocol/enums.ts';
import type { ErrorCode } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Clock } from '../../storage/contract.ts';
import type { AuditLog } from '../access/audit-log.ts';
import type { SessionTokens, TokenBinding } from '../access/session-tokens.ts';
import type { CredentialStore } from '../credentials/credential-store.ts';
import { ByteLimit, type ByteReservation, ConcurrencyLimit } from '../request-limits.ts';
import { Budgets, type BudgetsOptions, checkModel } from './budgets.ts';
import { CallTiming, type ChargingOptions, chargeCall } from './charging.ts';
import type { Shape } from './field-check.ts';
import { type ModelRequest, readModelRequest } from './model-request.ts';
import {
  findProviderRoute,
  type ProviderRoute,
  providerAdapters,
  providerErrorEvent,
  providerOf,
  requestHeaders,
  sendProviderError,
} from './provider-api.ts';
import { type AnswerReader, ErrorReader, EventReader, JsonReader } from './response-filter.ts';
import {
  callerGone,
  defaultUpstreamTimeouts,
  isStream,
  relayResponse,
  responseKind,
  Upstream,
  type UpstreamTimeouts,
} from './upstream.ts';
import type { UsageLedger } from './usage-ledger.ts';
import { ResponseUsageReader } from './usage-reader.ts';

export interface GatewayParts extends BudgetsOptions, ChargingOptions {
  readonly tokens: Pick<SessionTokens, 'check'>;
  readonly credentials: Pick<CredentialStore, 'reveal'>;
  readonly usage: UsageLedger;
  /** Records refused calls. */
  readonly refused?: AuditLog['refused'] | undefined;
  readonly upstreamTimeouts?: Partial<UpstreamTimeouts> | undefined;
  /** Per request, and per answer. */
  readonly mostBytes?: { readonly request?: number; readonly answer?: number } | undefined;
  /** Concurrent calls per session. */
  readonly mostCalls?: number | undefined;
  /** In milliseconds. Measures how long a provider works. */
  readonly clock?: Clock | undefined;
}

/** What the request's socket is bound to. A token bound to anything else is refused. */
export interface GateOf extends Partial<TokenBinding> {
  /** Whether the agent has the machine's network. Without it, the provider may not reach other hosts for the agent. */
  readonly hasNetwork?: boolean | undefined;
}

type HandleModelRequest = (request: IncomingMessage, response: ServerResponse, expected?: GateOf) => boolean;

const REFUSED: ReadonlySet<string> = new Set([
  ...['FORBIDDEN', 'NOT_FOUND', 'INVALID_REQUEST', 'TOO_LARGE', 'RATE_LIMITED'],
  ...['MODEL_NOT_ALLOWED', 'BUDGET_EXCEEDED', 'QUOTA_EXCEEDED'],
]);
const MOST_REQUEST_BYTES = 32 * 1024 * 1024;
const MOST_ANSWER_BYTES = 32 * 1024 * 1024;
const MOST_STREAM_BYTES = 512 * 1024 * 1024;
const MOST_CALLS = 32;
/** How many maximum-size requests one session may hold in memory. */
const LARGEST_AT_ONCE = 4;

export class ModelGateway implements AsyncDisposable {
  readonly #parts: GatewayParts;
  readonly #timeouts: UpstreamTimeouts;
  readonly #upstream: Upstream;
  readonly #budgets: Budgets;
  readonly #calls: ConcurrencyLimit;
  /** Memory of request bodies, by session. */
  readonly #bodies: ByteLimit;
  /** Memory of answers, by session. An event, or an answer that is not a stream, is held until it is checked. */
  readonly #answers = new ByteLimit(LARGEST_AT_ONCE * MOST_ANSWER_BYTES);
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly refused = new TurnErrors();

  constructor(parts: GatewayParts) {
    this.#parts = parts;
    this.#budgets = new Budgets(parts);
    const { request = MOST_REQUEST_BYTES } = parts.mostBytes ?? {};
    this.#calls = new ConcurrencyLimit(parts.mostCalls ?? MOST_CALLS, tooManyCalls);
    this.#bodies = new ByteLimit(LARGEST_AT_ONCE * request);
    this.#timeouts = { ...defaultUpstreamTimeouts, ...parts.upstreamTimeouts };
    this.#upstream = new Upstream(this.#timeouts);
  }

  /** Does nothing and returns false if the path belongs to no provider. */
  readonly handle: HandleModelRequest = (request, response, expected = {}) => {
    const provider = providerOf(request.url ?? '');
    if (!provider) return false;
    void this.#serve(provider, request, response, expected);
    return true;
  };

  /** Ends all running calls. Their usage is saved when this resolves. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(callerGone());
    await Promise.allSettled(this.#running);
    this.#upstream[Symbol.dispose]();
  }

  async #serve(
    provider: Provider,
    request: IncomingMessage,
    response: ServerResponse,
    expected: GateOf,
  ): Promise<void> {
    const gone = new AbortController();
    const leave = () => gone.abort(callerGone());
    response.on('close', leave);
    response.on('error', leave);
    try {
      await this.#answer(provider, request, response, {
        expected,
        signal: AbortSignal.any([gone.signal, this.#closing.signal]),
      });
    } catch (error) {
      const failure = error instanceof CellaError ? error : new CellaError('INTERNAL', 'The gateway failed.');
      if (failure !== error) this.#parts.log?.error({ err: error }, 'model gateway');
      else this.#parts.log?.warn({ provider, code: failure.code, reason: failure.message }, 'model call refused');
      if (failure === error) this.#reportRefused(provider, failure, expected);
      sendError(response, provider, failure);
    }
  }

  /** Failures of the provider or the connection are not refusals, unless the gateway held an answer back. */
  #reportRefused(provider: Provider, error: CellaError, { session, userId }: Partial<TokenBinding>): void {
    const { code, message, details } = error;
    const isRefused = REFUSED.has(code) || details.heldBack === true;
    const kind = code === 'UNAUTHENTICATED' ? 'session_token' : isRefused ? 'gateway' : undefined;
    if (kind) this.#parts.refused?.({ kind, code, detail: `${provider}: ${message}`, session, userId });
  }

  async #answer(
    provider: Provider,
    request: IncomingMessage,
    response: ServerResponse,
    { expected, signal }: { readonly expected: GateOf; readonly signal: AbortSignal },
  ): Promise<void> {
    const { tokens, rules } = this.#parts;
    const { hasNetwork = false, ...bound } = expected;
    const mayReach = hasNetwork || rules.providerTools === 'always';
    // Without a valid token, a caller learns nothing about what exists.
    const binding = await tokens.check(presentedToken(request), bound);
    if (rules.keys !== 'gateway') throw otherWay();
    const route = findProviderRoute(provider, request.method ?? '', request.url ?? '');
    if (!route)
      throw new CellaError('NOT_FOUND', `The gateway has no such path for ${provider}.`, {
        advice: 'See docs/gateway.md.',
      });
    using _underWay = this.#calls.enter(binding.session);
    using body = this.#bodies.reserve(binding.session);
    try {
      const mostBytes = this.#parts.mostBytes?.request ?? MOST_REQUEST_BYTES;
      const added = rules.addedFields(provider);
      const modelRequest = await readModelRequest(request, route, { mostBytes, take: body.add, added, mayReach });
      for (const model of [modelRequest.model, ...modelRequest.otherModels]) checkModel(rules, provider, model);
      const counted = route.format !== 'free';
      // Released once the real usage is saved.
      using _kept = counted ? await this.#budgets.reserve(binding, modelRequest, signal) : undefined;
      await this.#underWay(this.#call({ route, modelRequest, binding, signal }, request, response));
      response.end();
    } catch (error) {
      if (error instanceof CellaError && route.format !== 'free') this.refused.note(binding.turn, error);
      throw error;
    }
  }

  async #underWay(call: Promise<void>): Promise<void> {
    this.#running.add(call);
    try {
      await call;
    } finally {
      this.#running.delete(call);
    }
  }

  async #call(
    { route, modelRequest, binding, signal }: ModelCall,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { rules, credentials, clock } = this.#parts;
    const key = await credentials.reveal(binding.userId, route.provider);
    signal.throwIfAborted();
    const timing = new CallTiming(clock);
    const usage = new ResponseUsageReader(route.format);
    using hold = this.#answers.reserve(binding.session);
    try {
      const answer = await this.#upstream.send({
        url: urlOf(rules.addresses[route.provider], route.target),
        method: route.takesBody ? 'POST' : 'GET',
        headers: requestHeaders(request.headers, {
          provider: route.provider,
          key,
          bodyBytes: modelRequest.body?.length,
        }),
        body: modelRequest.body,
        signal,
        onSent: () => timing.sent(),
      });
      timing.answered(answer.statusCode ?? 0);
      const { streamed, good } = responseKind(answer);
      if (route.format !== 'free') this.refused.answered(binding.turn);
      const reader = this.#readerOf({ route, key, usage, hold, streamed, good, status: answer.statusCode ?? 502 });
      const mostBytes = this.#parts.mostBytes?.answer ?? (streamed ? MOST_STREAM_BYTES : MOST_ANSWER_BYTES);
      await relayResponse(answer, response, {
        key,
        streamed,
        idleMs: this.#timeouts.idleMs,
        mostBytes,
        reader,
        signal,
      });
    } finally {
      if (route.format !== 'free') await chargeCall(this.#parts, { binding, modelRequest, timing, reader: usage });
    }
  }

  #readerOf({ route, streamed, good, status, ...parts }: Answered): AnswerReader {
    const { provider, fields } = route;
    const added = this.#parts.rules.addedFields(provider);
    const { anyCase, errorFields } = providerAdapters[provider];
    const rules = (shape: Shape) => ({ shape, added, anyCase });
    if (streamed) return new EventReader({ ...parts, rules: rules(fields.event ?? fields.answer), mustEnd: good });
    if (good) return new JsonReader({ ...parts, rules: rules(fields.answer) });
    return new ErrorReader({ ...parts, rules: rules(errorFields) }, { provider, status });
  }
}

interface ModelCall {
  readonly route: ProviderRoute;
  readonly modelRequest: ModelRequest;
  readonly binding: TokenBinding;
  readonly signal: AbortSignal;
}

interface Answered {
  readonly route: ProviderRoute;
  readonly key: string;
  readonly usage: ResponseUsageReader;
  readonly hold: ByteReservation;
  readonly streamed: boolean;
  /** Whether the provider's status reports success. */
  readonly good: boolean;
  readonly status: number;
}

function urlOf(base: URL, target: string): URL {
  const url = new URL(base);
  const [path = '', query = ''] = target.split('?');
  url.pathname = base.pathname.replace(/\/$/, '') + path;
  url.search = query;
  return url;
}

/** Midway through an answer, only a stream can carry the error, as an event. Otherwise this cuts the connection. */
function sendError(response: ServerResponse, provider: Provider, error: CellaError): void {
  if (response.destroyed) return;
  if (!response.headersSent) sendProviderError(response, provider, error);
  else if (isStream(String(response.getHeader('content-type'))))
    response.end(`\n\n${providerErrorEvent(provider, error)}`);
  else response.destroy();
}

const tooManyCalls = (most: number): CellaError =>
  new CellaError('RATE_LIMITED', `There are already ${most} such requests in progress.`, {
    details: { retryAfterMs: 1000 },
  });

const otherWay = (): CellaError =>
  new CellaError('FORBIDDEN', 'This server gives keys to agents just in time, and has no gateway.', {
    advice: 'The operator can change this with `--keys gateway`.',
  });

/** Throws UNAUTHENTICATED if there is no token, or if there are different tokens. */
export function presentedToken({ rawHeaders, url = '' }: Pick<IncomingMessage, 'rawHeaders' | 'url'>): string {
  const shown = new Set([...inHeaders(rawHeaders), ...inQuery(url)]);
  const [token] = shown;
  if (token !== undefined && shown.size === 1) return token;
  const message = shown.size === 0 ? 'There is no session token.' : 'The request has several different session tokens.';
  throw new CellaError('UNAUTHENTICATED', message, {
    details: { reason: shown.size === 0 ? 'missing' : 'several' },
    advice: 'Send the session token only in place of the key.',
  });
}

/** Reads raw headers: `request.headers` merges or drops repeated ones. */
function* inHeaders(raw: readonly string[]): Generator<string> {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name, value] = [raw[at]?.toLowerCase(), raw[at + 1] ?? ''];
    if (name === 'x-api-key' || name === 'x-goog-api-key') yield value;
    if (name === 'authorization') yield value.replace(/^bearer /i, '');
  }
}

function inQuery(url: string): string[] {
  const at = url.indexOf('?');
  return at === -1 ? [] : new URLSearchParams(url.slice(at + 1)).getAll('key');
}

/** Errors that the prompting user or the operator can fix. */
const REPORTED: ReadonlySet<ErrorCode> = new Set([
  'BUDGET_EXCEEDED',
  'MODEL_NOT_ALLOWED',
  'CREDENTIAL_MISSING',
  'CREDENTIAL_UNREADABLE',
]);
/** Limits the entries of turns whose error is never taken. */
const MOST_TURNS = 1000;

/** The last error of each turn. */
class TurnErrors {
  readonly #refused = new BoundedMap<string, CellaError>(MOST_TURNS);

  note(turn: string, error: CellaError): void {
    if (!REPORTED.has(error.code) && error.details.permanent !== true) return;
    this.#refused.set(turn, error);
  }

  /**
   * Forgets the turn's error once a call is answered: the earlier refusal is then not why the turn ends. Keeps the error of
   * a held-back answer, because an agent may still make the calls it received before the cut, and fail after that.
   */
  answered(turn: string): void {
    if (this.#refused.get(turn)?.details.heldBack === true) return;
    this.#refused.delete(turn);
  }

  /** Call it once, when the turn is over. */
  take(turn: string): CellaError | undefined {
    return this.#refused.take(turn);
  }
}
