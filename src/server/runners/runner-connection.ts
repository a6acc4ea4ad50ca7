/**
 * The server's side of the runner protocol. A runner is untrusted: it may speak only for the turn that it was given, with
 * that turn's token. If it breaks the protocol, it is disconnected.
 */

import { timingSafeEqual } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import type { z } from 'zod';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import { RpcPeer } from '../../protocol/rpc-peer.ts';
import { portOfStreams } from '../../protocol/rpc-streams.ts';
import {
  type decisionFields,
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
  Shutdown,
  StopTask,
  type TaskOutcome,
} from '../../protocol/runner-methods.ts';
import { checkTranscriptLength } from '../../protocol/turn.ts';
import type { SessionTokens } from '../access/access-control.ts';
import { newPermissionId } from '../ids.ts';
import type { PermissionResult } from '../permissions/session-permissions.ts';
import type { RunnerTurn, TurnPermissionRequest } from '../turns/session-turn.ts';
import { MessageOrder } from './message-order.ts';
import type { RunnerEnvironment } from './runner-environment.ts';

/** The name of the session's MCP server in an agent's profile. */
const SESSION_MCP = 'cella';
/** A runner treats this as no limit. */
const NO_LIMIT_MS = 2 ** 31 - 1;
/** How many calls of one runner are handled at once. */
const IN_FLIGHT = 128;

interface KeyRequest {
  readonly task: RunnerTurn;
  readonly token: string;
  readonly provider: string;
  readonly executor: string;
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
        executor_id: runnerId,
        key_mode: keyFor ? 'just-in-time' : 'gateway',
        gateway_socket: environment.gatewaySocket,
        agentic_tool: agent,
        enclosed: environment.environment.isolated,
      },
      { timeoutMs },
    );
    if (protocol_version !== PROTOCOL_VERSION) {
      throw protocolViolation(
        `speaks version ${protocol_version} of the protocol, and this server ${PROTOCOL_VERSION}`,
      );
    }
  }

  async ping(timeoutMs: number): Promise<void> {
    await this.#peer.call(Ping, {}, { timeoutMs });
  }

  /** Resolves with how the turn ended. Only the turn's own timeout applies. */
  async execute(task: RunnerTurn, token: string): Promise<TaskOutcome> {
    const { environment } = this.#parts;
    const current = new ActiveTurn(task, token);
    this.#current = current;
    try {
      const outcome = await this.#peer.call(ExecutePrompt, {
        session_token: token,
        session_id: task.session.id,
        task_id: task.id,
        agentic_tool: task.agent,
        prompt: task.prompt,
        cwd: environment.cwd,
        permission_mode: task.mode,
        timeout_ms: task.timeoutMs === 0 ? NO_LIMIT_MS : task.timeoutMs,
        ...(task.model === undefined ? {} : { model: task.model }),
        ...(task.tools === undefined ? {} : { tools: task.tools }),
        ...(task.conversation === undefined ? {} : { conversation: task.conversation }),
      });
      return this.#guarded(() => current.checkOutcome(outcome));
    } finally {
      this.#current = undefined;
    }
  }

  /** Undefined if there is no such conversation. `timeoutMs` is per part. */
  async readTranscript({ agent }: RunnerTurn, conversation: string, timeoutMs: number): Promise<string | undefined> {
    const { environment } = this.#parts;
    const where = {
      cwd: environment.cwd,
      home_dir: environment.homeDir,
      program_dir: await environment.programDir(agent),
    };
    const wanted = { agentic_tool: agent, conversation, ...where };
    return await readWholeTranscript(conversation, (part) =>
      this.#peer.call(ReadTranscript, { ...wanted, part }, { timeoutMs }),
    );
  }

  async stopTurn(turn: string, timeoutMs: number): Promise<void> {
    await this.#peer.call(StopTask, { task_id: turn }, { timeoutMs });
  }

  async shutdown(reason: string, graceMs: number): Promise<void> {
    await this.#peer.call(Shutdown, { reason: reason.slice(0, 1000), grace_ms: graceMs }, { timeoutMs: graceMs });
  }

  /** Pending calls fail with this reason. */
  disconnect(reason: CellaError): void {
    this.#peer.close(reason);
  }

  #listen(): void {
    const { environment, keyFor, runnerId } = this.#parts;
    this.#peer
      .handle(GetExecutionContext, async (claim) => {
        const { turn: task } = await this.#admit(claim);
        const program_dir = await environment.programDir(task.agent);
        return { home_dir: environment.homeDir, program_dir, env: {}, profile: task.profile, session_mcp: SESSION_MCP };
      })
      .handle(ReportMessage, async ({ sequence, event, ...claim }) => {
        const current = this.#claimed(claim);
        // The order is checked synchronously.
        await this.#guarding(current.addEvent(sequence, event, this.#allowed(claim, current)));
        return {};
      })
      .handle(RequestPermission, async ({ session_token, session_id, task_id, ...ask }) => {
        const { turn: task } = await this.#admit({ session_token, session_id, task_id });
        return await this.#permit(task, ask);
      })
      .handle(GetApiKey, async ({ provider, ...claim }) => {
        const { turn: task } = await this.#admit(claim);
        if (keyFor) return await keyFor({ task, token: claim.session_token, provider, executor: runnerId });
        throw new CellaError('FORBIDDEN', 'Keys stay behind the gateway.', {
          advice: 'Use the gateway with the session token as the key.',
        });
      })
      .handle(ReportCompletion, async ({ session_token, session_id, task_id, ...outcome }) => {
        const current = await this.#admit({ session_token, session_id, task_id });
        await this.#guarding(current.complete(outcome));
        return {};
      })
      .on(ReportProgress, () => void this.#guarded(() => this.#limit.count({ messages: 1 })));
  }

  /** Replies with the decision if a rule decides; else the decision follows later. */
  async #permit(task: RunnerTurn, ask: TurnPermissionRequest): Promise<z.input<(typeof RequestPermission)['result']>> {
    const asked = Promise.withResolvers<string>();
    const decided = task.permit({ ...ask, onAsked: asked.resolve });
    const first = await Promise.race([asked.promise, decided]);
    if (typeof first !== 'string') return { request_id: first.id ?? newPermissionId(), decision: toDecision(first) };
    // If the connection has gone, nobody waits for it.
    const tell = (decision: z.input<z.ZodObject<typeof decisionFields>>) =>
      this.#peer.call(PermissionResolved, { task_id: task.id, request_id: first, ...decision }).catch(() => {});
    void decided.then(
      (told) => tell(toDecision(told)),
      () => tell({ outcome: 'denied', reason: 'The permission could not be asked for.' }),
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
      if (!this.#current) throw protocolViolation('spoke for a task where it has none');
      this.#current.checkClaim(claim);
      return this.#current;
    });
  }

  /** Rejects if the token was revoked, has expired or is used up. */
  #allowed({ session_token }: TurnClaim, { turn: task }: ActiveTurn): Promise<unknown> {
    const { tokens, sessionId, runnerId } = this.#parts;
    const expected = { session: sessionId, task: task.id, executor: runnerId, userId: task.userId };
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

function toDecision({ outcome, reason, text }: PermissionResult) {
  return { outcome, ...(reason === undefined ? {} : { reason }), ...(text === undefined ? {} : { text }) };
}

/** Errors that disconnect a runner. */
export const DISCONNECT_CODES: ReadonlySet<string> = new Set([
  'RUNNER_PROTOCOL',
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'RATE_LIMITED',
]);

/** The turn that a runner claims to speak for. */
interface TurnClaim {
  readonly session_token: string;
  readonly session_id: string;
  readonly task_id: string;
}

export class ActiveTurn {
  readonly turn: RunnerTurn;
  readonly token: string;
  readonly #order = new MessageOrder();
  #written: Promise<void> = Promise.resolve();
  #completed: TaskOutcome | undefined;

  constructor(task: RunnerTurn, token: string) {
    this.turn = task;
    this.token = token;
  }

  /** Throws `RUNNER_PROTOCOL` if the claim is for another turn, or after the end. */
  checkClaim({ session_token, session_id, task_id }: TurnClaim): void {
    if (session_id !== this.turn.session.id) throw forged('session');
    if (task_id !== this.turn.id) throw forged('task');
    if (!sameText(session_token, this.token)) throw forged('token');
    if (this.#completed) throw protocolViolation('spoke of a task after it had said that it is over');
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

  async complete(outcome: TaskOutcome): Promise<void> {
    if (outcome.message_count !== this.#order.count) throw this.#miscounted(outcome);
    this.#completed = outcome;
    await this.#written;
  }

  /** The reply to the prompt must match what was reported. */
  checkOutcome(outcome: TaskOutcome): TaskOutcome {
    if (outcome.message_count !== this.#order.count) throw this.#miscounted(outcome);
    if (this.#completed && this.#completed.status !== outcome.status)
      throw protocolViolation('told two endings of one task');
    return outcome;
  }

  #miscounted({ message_count }: TaskOutcome): CellaError {
    return protocolViolation(`counts ${message_count} messages of its task where ${this.#order.count} came`);
  }
}

function protocolViolation(what: string): CellaError {
  return new CellaError('RUNNER_PROTOCOL', `The executor ${what}.`);
}

function forged(what: string): CellaError {
  return protocolViolation(`spoke for a ${what} that it was not given`);
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

const WINDOW_MS = 10_000;
const MOST_MESSAGES = 50_000;
const MOST_BYTES = 256 * 1024 * 1024;

class InboundLimit {
  #since = performance.now();
  #messages = 0;
  #bytes = 0;

  /** Throws `RUNNER_PROTOCOL` above the limit. */
  count({ messages = 0, bytes = 0 }: { readonly messages?: number; readonly bytes?: number }): void {
    const now = performance.now();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#messages = 0;
      this.#bytes = 0;
    }
    this.#messages += messages;
    this.#bytes += bytes;
    if (this.#messages <= MOST_MESSAGES && this.#bytes <= MOST_BYTES) return;
    throw new CellaError('RUNNER_PROTOCOL', 'The executor floods its connection with messages.', {
      details: { messages: this.#messages, bytes: this.#bytes },
    });
  }

  /** Passes the bytes on and counts them; throws above the limit. */
  async *counted(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of input) {
      this.count({ bytes: chunk.length });
      yield chunk;
    }
  }
}

/** About twice as many as the longest transcript has. */
const MOST_PARTS = 512;

type TranscriptPart = z.output<typeof ReadTranscript.result>;

/** Undefined if there is no such conversation. */
export async function readWholeTranscript(
  conversation: string,
  read: (part: number) => Promise<TranscriptPart>,
): Promise<string | undefined> {
  const texts: string[] = [];
  let length = 0;
  for (let part = 0; ; part++) {
    const { found, text, parts } = await read(part);
    if (!found) return undefined;
    if (parts > MOST_PARTS) throw protocolViolation(`told a transcript in ${parts} parts`);
    length += text.length;
    checkTranscriptLength(conversation, length);
    texts.push(text);
    if (part + 1 >= parts) return texts.join('');
    // Empty parts could go on for ever.
    if (text === '') throw protocolViolation('told a part of a transcript that has nothing in it');
  }
}
