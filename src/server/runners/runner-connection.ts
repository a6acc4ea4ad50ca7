/**
 * The server's side of the runner protocol. A runner is untrusted: it may speak only for the turn that it was given, with
 * that turn's token. If it breaks the protocol, it is disconnected.
 */

import { timingSafeEqual } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import type { z } from 'zod';
import { TokenBucket } from '../../lib/token-bucket.ts';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PermissionRequest } from '../../protocol/permission.ts';
import { type CallOptions, portOfStreams, RpcPeer } from '../../protocol/rpc-peer.ts';
import {
  type Decision,
  ExecutePrompt,
  GetApiKey,
  GetExecutionContext,
  Hello,
  PermissionResolved,
  Ping,
  PROTOCOL_VERSION,
  ReadTranscript,
  ReportCompletion,
  ReportMessage,
  ReportProgress,
  RequestPermission,
  SetupSession,
  Shutdown,
  StopTurn,
  type TurnClaim,
  type TurnReport,
} from '../../protocol/runner-methods.ts';
import type { TurnResult } from '../../protocol/turn.ts';
import type { SessionTokens } from '../access/session-tokens.ts';
import { newSortableId } from '../ids.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import type { RunnerEnvironment } from './runner-environment.ts';
import {
  protocolViolation,
  readWholeTranscript,
  type SentPart,
  type SentTranscript,
  sendWholeTranscript,
} from './transcript-parts.ts';

export class MessageOrder {
  #taken = 0;

  /** Throws `RUNNER_PROTOCOL` for a repeat or a gap. */
  take(sequence: number): void {
    const expected = this.#taken + 1;
    if (sequence === expected) {
      this.#taken = sequence;
      return;
    }
    const problem = sequence < expected ? 'was sent before' : `came instead of ${expected}`;
    throw new CellaError('RUNNER_PROTOCOL', `Message ${sequence} of the turn ${problem}.`, {
      details: { expected, sequence },
    });
  }

  /** The number of events received; `report_completion` must state the same. */
  get count(): number {
    return this.#taken;
  }
}

/** The name of the session's MCP server in an agent's profile. */
const SESSION_MCP = 'cella';
/** How many calls of one runner are handled at once. */
const IN_FLIGHT = 128;

interface KeyRequest {
  readonly turn: RunnerTurn;
  readonly token: string;
  readonly provider: string;
  readonly runner: string;
}

export interface RunnerConnectionParts {
  readonly runnerId: string;
  readonly sessionId: string;
  readonly environment: RunnerEnvironment;
  readonly tokens: Pick<SessionTokens, 'check'>;
  /** Gives the user's key just in time. Without it, keys stay behind the gateway. */
  readonly keyFor?: ((asked: KeyRequest) => Promise<{ api_key: string; base_url: string }>) | undefined;
  readonly onUnforeseen: (error: unknown) => void;
}

export class RunnerConnection {
  readonly #parts: RunnerConnectionParts;
  readonly #peer: RpcPeer;
  readonly #limit = new InboundLimit();
  #current: ActiveTurn | undefined;

  constructor(
    { stdout, stdin }: { readonly stdout: Readable; readonly stdin: Writable },
    parts: RunnerConnectionParts,
  ) {
    this.#parts = parts;
    const port = portOfStreams(stdout, stdin);
    this.#peer = new RpcPeer(
      { ...port, input: this.#counted(port.input) },
      { inFlight: IN_FLIGHT, onUnforeseen: parts.onUnforeseen },
    );
    this.#listen();
    this.#peer.start();
  }

  /** Why it ended, once it has. */
  get closed(): Promise<CellaError> {
    return this.#peer.closed;
  }

  async hello(agent: string, timeoutMs: number): Promise<void> {
    const { sessionId, runnerId, environment, keyFor } = this.#parts;
    const { protocol_version } = await this.#peer.call(
      Hello,
      {
        protocol_version: PROTOCOL_VERSION,
        session_id: sessionId,
        runner_id: runnerId,
        key_mode: keyFor ? 'just-in-time' : 'gateway',
        gateway_socket: environment.gatewaySocket,
        agent,
        isolated: environment.environment.isolated,
      },
      { timeoutMs },
    );
    if (protocol_version !== PROTOCOL_VERSION) {
      throw protocolViolation(
        `speaks version ${protocol_version} of the protocol, this server version ${PROTOCOL_VERSION}`,
      );
    }
  }

  async ping(timeoutMs: number): Promise<void> {
    await this.#peer.call(Ping, {}, { timeoutMs });
  }

  /** Resolves when the turn has ended. Its timeout stops it by `stopTurn`. */
  async execute(turn: RunnerTurn, token: string): Promise<TurnResult> {
    const { environment } = this.#parts;
    const current = new ActiveTurn(turn, token);
    this.#current = current;
    try {
      const reported = this.#peer.call(ExecutePrompt, {
        session_token: token,
        session_id: turn.session.id,
        turn_id: turn.id,
        agent: turn.agent,
        prompt: turn.prompt,
        cwd: environment.cwd,
        mode: turn.mode,
        model: turn.model,
        tools: turn.tools,
        conversation: turn.conversation,
      });
      const report = await this.#guarding(reported);
      this.#guarded(() => current.checkReport(report));
      const { message_count: _, ...result } = report;
      return result;
    } finally {
      this.#current = undefined;
    }
  }

  /** Writes the profile, and the conversation unless the agent has a newer one. The timeout is per part. */
  async setupSession(
    { agent, profile: { files: _, ...profile } }: RunnerTurn,
    transcript: (SentTranscript & { readonly conversation: string }) | undefined,
    options: CallOptions,
  ): Promise<void> {
    const params = { ...(await this.#agentFolders(agent)), profile };
    const send = (part?: SentPart) => {
      const sent = transcript && part && { ...part, conversation: transcript.conversation };
      return this.#peer.call(SetupSession, { ...params, transcript: sent }, options);
    };
    await this.#guarding(sendWholeTranscript(transcript, send));
  }

  /** Undefined if there is no such conversation. The timeout is per part. */
  async readTranscript(
    { agent }: RunnerTurn,
    conversation: string,
    options: CallOptions,
  ): Promise<AsyncIterable<string> | undefined> {
    const params = { ...(await this.#agentFolders(agent)), conversation };
    const read = (part: number) => this.#guarding(this.#peer.call(ReadTranscript, { ...params, part }, options));
    const text = await this.#guarding(readWholeTranscript(conversation, read));
    return text && this.#guardedPieces(text);
  }

  async stopTurn(turn: string, timeoutMs: number): Promise<void> {
    await this.#peer.call(StopTurn, { turn_id: turn }, { timeoutMs });
  }

  async shutdown(reason: string, graceMs: number): Promise<void> {
    await this.#peer.call(Shutdown, { reason: reason.slice(0, 1000), grace_ms: graceMs }, { timeoutMs: graceMs });
  }

  /** Pending calls fail with this reason. */
  disconnect(reason: CellaError): void {
    this.#peer.close(reason);
  }

  async #agentFolders(agent: RunnerTurn['agent']) {
    const { environment } = this.#parts;
    const program_dir = await environment.programDir(agent);
    return { agent, cwd: environment.cwd, home_dir: environment.homeDir, program_dir };
  }

  #listen(): void {
    const { environment, keyFor, runnerId } = this.#parts;
    this.#peer
      .handle(GetExecutionContext, async (claim) => {
        const { turn } = await this.#admit(claim);
        const program_dir = await environment.programDir(turn.agent);
        return { home_dir: environment.homeDir, program_dir, env: {}, profile: turn.profile, session_mcp: SESSION_MCP };
      })
      .handle(ReportMessage, async ({ sequence, event, ...claim }) => {
        const current = this.#claimed(claim);
        // The order is checked synchronously.
        await this.#guarding(current.addEvent(sequence, event, this.#allowed(claim, current)));
        return {};
      })
      .handle(RequestPermission, async ({ session_token, session_id, turn_id, ...request }) => {
        const { turn } = await this.#admit({ session_token, session_id, turn_id });
        return await this.#permit(turn, request);
      })
      .handle(GetApiKey, async ({ provider, ...claim }) => {
        const { turn } = await this.#admit(claim);
        if (keyFor) return await keyFor({ turn, token: claim.session_token, provider, runner: runnerId });
        throw new CellaError('FORBIDDEN', 'This server keeps keys in the gateway.', {
          advice: 'Use the gateway with the session token as the key.',
        });
      })
      .handle(ReportCompletion, async ({ session_token, session_id, turn_id, ...report }) => {
        const current = await this.#admit({ session_token, session_id, turn_id });
        await this.#guarding(current.complete(report));
        return {};
      })
      .on(ReportProgress, () => void this.#guarded(() => this.#limit.count({ messages: 1 })));
  }

  /** Replies with the decision if a rule decides; else the decision follows later. */
  async #permit(turn: RunnerTurn, request: PermissionRequest): Promise<z.input<(typeof RequestPermission)['result']>> {
    const asked = Promise.withResolvers<string>();
    const decided = turn.permit(request, asked.resolve);
    const first = await Promise.race([asked.promise, decided]);
    if (typeof first !== 'string') return { request_id: first.id ?? newSortableId('prm'), decision: toDecision(first) };
    // If the connection is gone, the decision has no reader.
    const tell = (decision: Decision) =>
      this.#peer.call(PermissionResolved, { turn_id: turn.id, request_id: first, ...decision }).catch(() => {});
    void decided.then(
      (resolution) => tell(toDecision(resolution)),
      () => tell({ outcome: 'denied', reason: 'The permission request failed.' }),
    );
    return { request_id: first };
  }

  async #admit(claim: TurnClaim): Promise<ActiveTurn> {
    const current = this.#claimed(claim);
    await this.#allowed(claim, current);
    return current;
  }

  #claimed(claim: TurnClaim): ActiveTurn {
    return this.#guarded(() => {
      this.#limit.count({ messages: 1 });
      if (!this.#current) throw protocolViolation('sent a message for a turn, but has none');
      this.#current.checkClaim(claim);
      return this.#current;
    });
  }

  /** Rejects if the token was revoked, has expired or is used up. */
  #allowed({ session_token }: TurnClaim, { turn }: ActiveTurn): Promise<unknown> {
    const { tokens, sessionId, runnerId } = this.#parts;
    const expected = { session: sessionId, turn: turn.id, runner: runnerId, userId: turn.userId };
    return this.#guarding(tokens.check(session_token, expected));
  }

  #guarded<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw this.#disconnectIfHostile(error);
    }
  }

  async #guarding<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.#disconnectIfHostile(error);
    }
  }

  async *#guardedPieces(pieces: AsyncIterable<string>): AsyncGenerator<string> {
    try {
      yield* pieces;
    } catch (error) {
      throw this.#disconnectIfHostile(error);
    }
  }

  /** Disconnects a runner that breaks the protocol; other errors are only returned. */
  #disconnectIfHostile(error: unknown): unknown {
    if (error instanceof CellaError && DISCONNECT_CODES.has(error.code)) this.disconnect(error);
    return error;
  }

  async *#counted(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#limit.counted(input);
    } catch (error) {
      throw this.#disconnectIfHostile(error);
    }
  }
}

function toDecision({ outcome, reason, text }: Decision): Decision {
  return { outcome, reason, text };
}

/** Errors that disconnect a runner. */
export const DISCONNECT_CODES: ReadonlySet<string> = new Set([
  'RUNNER_PROTOCOL',
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'RATE_LIMITED',
]);

export class ActiveTurn {
  readonly turn: RunnerTurn;
  readonly token: string;
  readonly #order = new MessageOrder();
  #written: Promise<void> = Promise.resolve();
  #completed: TurnReport | undefined;

  constructor(turn: RunnerTurn, token: string) {
    this.turn = turn;
    this.token = token;
  }

  /** Throws `RUNNER_PROTOCOL` if the claim is for another turn, or after the end. */
  checkClaim({ session_token, session_id, turn_id }: TurnClaim): void {
    if (session_id !== this.turn.session.id) throw forged('session');
    if (turn_id !== this.turn.id) throw forged('turn');
    if (!sameText(session_token, this.token)) throw forged('token');
    if (this.#completed) throw protocolViolation('sent a message for a turn after its completion');
  }

  /** Resolves when it is durable. Events go out in the order in which they came. `allowed`: whether it may still speak. */
  async addEvent(sequence: number, event: AgentEvent, allowed: Promise<unknown>): Promise<void> {
    allowed.catch(() => {}); // awaited below, maybe much later
    if (event.turn !== this.turn.id) throw forged('turn');
    this.#order.take(sequence);
    const before = this.#written;
    const written = before.then(() => allowed).then(() => this.turn.emit(event));
    // A failure ends the connection, so later events are never written.
    this.#written = written.catch(() => {});
    await written;
  }

  async complete(report: TurnReport): Promise<void> {
    this.checkReport(report);
    this.#completed = report;
    await this.#written;
  }

  /** The reply to the prompt must match the completion. Only the server knows what it has interrupted. */
  checkReport({ status, message_count }: TurnReport): void {
    const { count } = this.#order;
    if (message_count !== count)
      throw protocolViolation(`counted ${message_count} messages of its turn, but ${count} arrived`);
    if (status === 'interrupted') throw protocolViolation('reported its turn as interrupted');
    if (this.#completed && this.#completed.status !== status)
      throw protocolViolation('reported two results of one turn');
  }
}

function forged(what: string): CellaError {
  return protocolViolation(`sent a message for another ${what}`);
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

const MOST_MESSAGES = 50_000;
const MOST_BYTES = 256 * 1024 * 1024;
/** Within this time, a runner may send as much again. */
const REFILL_MS = 10_000;

class InboundLimit {
  readonly #messages = new TokenBucket(MOST_MESSAGES, REFILL_MS / MOST_MESSAGES, performance.now());
  readonly #bytes = new TokenBucket(MOST_BYTES, REFILL_MS / MOST_BYTES, performance.now());

  /** Throws `RUNNER_PROTOCOL` above the limit. */
  count({ messages = 0, bytes = 0 }: { readonly messages?: number; readonly bytes?: number }): void {
    const now = performance.now();
    if (this.#messages.take(messages, now) === 0 && this.#bytes.take(bytes, now) === 0) return;
    throw protocolViolation('floods its connection with messages');
  }

  /** Passes the bytes on and counts them; throws above the limit. */
  async *counted(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of input) {
      this.count({ bytes: chunk.length });
      yield chunk;
    }
  }
}
