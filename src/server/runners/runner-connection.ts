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
import type { SessionTokens } from '../access/contract.ts';
import { newPermissionId } from '../ids.ts';
import type { PermissionResult } from '../permissions/session-permissions.ts';
import type { TurnTask } from '../turns/session-turns.ts';
import type { RunnerTurn, TurnPermissionRequest } from '../turns/turn.ts';
import { MessageOrder } from './message-order.ts';
import type { RunnerEnvironment } from './runner-environment.ts';

/** The name that agents know the session's own MCP server by. */
const SESSION_MCP = 'cella';
/** What a runner takes as no limit. */
const NO_LIMIT_MS = 2 ** 31 - 1;
/** How many calls of one executor are worked on at once. */
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
  /** The person's key, where keys are given just in time. Without it they stay behind the gateway. */
  readonly keyFor?: ((asked: KeyRequest) => Promise<{ api_key: string; base_url: string }>) | undefined;
  readonly onUnforeseen: (error: unknown) => void;
}

export class RunnerConnection {
  readonly #parts: RunnerConnectionParts;
  readonly #peer: RpcPeer;
  readonly #guard = new InboundLimit();
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
    const { sessionId, runnerId: executorId, environment: place, keyFor } = this.#parts;
    const { protocol_version } = await this.#peer.call(
      Hello,
      {
        protocol_version: PROTOCOL_VERSION,
        session_id: sessionId,
        executor_id: executorId,
        key_mode: keyFor ? 'just-in-time' : 'gateway',
        gateway_socket: place.gatewaySocket,
        agentic_tool: agent,
        enclosed: place.environment.isolated,
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

  /** Resolves with how the turn ended. It has the deadline of its task, and no other. */
  async execute(task: RunnerTurn, token: string): Promise<TaskOutcome> {
    const { environment: place } = this.#parts;
    const current = new ActiveTurn(task, token);
    this.#current = current;
    try {
      const outcome = await this.#peer.call(ExecutePrompt, {
        session_token: token,
        session_id: task.session.id,
        task_id: task.id,
        agentic_tool: task.agent,
        prompt: task.prompt,
        cwd: place.cwd,
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

  /** Undefined where there is no such conversation. `timeoutMs` is for each part of it. */
  async readTranscript({ agent }: RunnerTurn, conversation: string, timeoutMs: number): Promise<string | undefined> {
    const { environment: place } = this.#parts;
    const where = { cwd: place.cwd, home_dir: place.homeDir, program_dir: await place.programDir(agent) };
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

  /** What waits fails with this. */
  disconnect(reason: CellaError): void {
    this.#peer.close(reason);
  }

  #listen(): void {
    const { environment: place, keyFor, runnerId: executorId } = this.#parts;
    this.#peer
      .handle(GetExecutionContext, async (claim) => {
        const { turn: task } = await this.#admit(claim);
        const program_dir = await place.programDir(task.agent);
        return { home_dir: place.homeDir, program_dir, env: {}, profile: task.profile, session_mcp: SESSION_MCP };
      })
      .handle(ReportMessage, async ({ sequence, event, ...claim }) => {
        const current = this.#claimed(claim);
        // What is out of order is seen before anything is waited for.
        await this.#guarding(current.addEvent(sequence, event, this.#allowed(claim, current)));
        return {};
      })
      .handle(RequestPermission, async ({ session_token, session_id, task_id, ...ask }) => {
        const { turn: task } = await this.#admit({ session_token, session_id, task_id });
        return await this.#permit(task, ask);
      })
      .handle(GetApiKey, async ({ provider, ...claim }) => {
        const { turn: task } = await this.#admit(claim);
        if (keyFor) return await keyFor({ task, token: claim.session_token, provider, executor: executorId });
        throw new CellaError('FORBIDDEN', 'Keys stay behind the gateway.', {
          advice: 'Use the gateway with the session token as the key.',
        });
      })
      .handle(ReportCompletion, async ({ session_token, session_id, task_id, ...outcome }) => {
        const current = await this.#admit({ session_token, session_id, task_id });
        await this.#guarding(current.complete(outcome));
        return {};
      })
      .on(ReportProgress, () => void this.#guarded(() => this.#guard.count({ messages: 1 })));
  }

  /** Answered at once, where nobody has to be asked with the decision; else that follows when there is one. */
  async #permit(task: RunnerTurn, ask: TurnPermissionRequest): Promise<z.input<(typeof RequestPermission)['result']>> {
    const asked = Promise.withResolvers<string>();
    const decided = task.permit({ ...ask, onAsked: asked.resolve });
    const first = await Promise.race([asked.promise, decided]);
    if (typeof first !== 'string') return { request_id: first.id ?? newPermissionId(), decision: toDecision(first) };
    // Where the connection is gone, so is whoever waits for it.
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
      this.#guard.count({ messages: 1 });
      if (!this.#current) throw protocolViolation('spoke for a task where it has none');
      this.#current.checkClaim(claim);
      return this.#current;
    });
  }

  /** Revoked, expired or used up meanwhile: from the next call on it is not heard. */
  #allowed({ session_token }: TurnClaim, { turn: task }: ActiveTurn): Promise<unknown> {
    const { tokens, sessionId, runnerId: executorId } = this.#parts;
    const expected = { session: sessionId, task: task.turn, executor: executorId, userId: task.userId };
    return this.#guarding(tokens.check(session_token, expected));
  }

  #guarded<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw this.#punish(error);
    }
  }

  async #guarding<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.#punish(error);
    }
  }

  /** What breaks the rules ends the connection; what only fails is told. */
  #punish(error: unknown): unknown {
    if (error instanceof CellaError && DISCONNECT_CODES.has(error.code)) this.disconnect(error);
    return error;
  }

  async *#counted(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#guard.counted(input);
    } catch (error) {
      throw this.#punish(error);
    }
  }
}

function toDecision({ outcome, reason, text }: PermissionResult) {
  return { outcome, ...(reason === undefined ? {} : { reason }), ...(text === undefined ? {} : { text }) };
}

/** An executor that has earned one of these is not heard any more. */
export const DISCONNECT_CODES: ReadonlySet<string> = new Set([
  'RUNNER_PROTOCOL',
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'RATE_LIMITED',
]);

/** What an executor says it speaks for. */
interface TurnClaim {
  readonly session_token: string;
  readonly session_id: string;
  readonly task_id: string;
}

export class ActiveTurn {
  readonly turn: TurnTask;
  readonly token: string;
  readonly #order = new MessageOrder();
  #written: Promise<void> = Promise.resolve();
  #completed: TaskOutcome | undefined;

  constructor(task: TurnTask, token: string) {
    this.turn = task;
    this.token = token;
  }

  /** RUNNER_PROTOCOL where it speaks for anything else, or after the end. */
  checkClaim({ session_token, session_id, task_id }: TurnClaim): void {
    if (session_id !== this.turn.session.id) throw forged('session');
    if (task_id !== this.turn.turn) throw forged('task');
    if (!sameText(session_token, this.token)) throw forged('token');
    if (this.#completed) throw protocolViolation('spoke of a task after it had said that it is over');
  }

  /** Resolves when it is durable. Events go out in the order in which they came. `allowed`: whether it may still speak. */
  async addEvent(sequence: number, event: AgentEvent, allowed: Promise<unknown>): Promise<void> {
    allowed.catch(() => {}); // told below, which may be long after it is known, or never
    if (event.turn !== this.turn.turn) throw forged('turn');
    this.#order.take(sequence);
    const before = this.#written;
    const written = before.then(() => allowed).then(() => this.turn.emit(event));
    // One that fails ends the connection: those after it are never asked for.
    this.#written = written.catch(() => {});
    await written;
  }

  async complete(outcome: TaskOutcome): Promise<void> {
    if (outcome.message_count !== this.#order.count) throw this.#miscounted(outcome);
    this.#completed = outcome;
    await this.#written;
  }

  /** What the reply to its prompt says must be what it has told. */
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

  /** RUNNER_PROTOCOL where it is too much. */
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

  /** The same bytes, counted; it ends where they are too many. */
  async *counted(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of input) {
      this.count({ bytes: chunk.length });
      yield chunk;
    }
  }
}

/** About twice as many as the longest one has. */
const MOST_PARTS = 512;

type TranscriptPart = z.output<typeof ReadTranscript.result>;

/** Undefined where there is no such conversation. */
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
    // One that says nothing, and that there is more, would go on for ever.
    if (text === '') throw protocolViolation('told a part of a transcript that has nothing in it');
  }
}
