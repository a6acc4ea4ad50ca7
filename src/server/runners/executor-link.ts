/**
 * The daemon's side of the executor protocol. An executor is hostile: whatever it says is believed only of the one task
 * that it was given, under that task's own token. Whoever breaks the rules is cut off, with the reason.
 */

import type { Readable, Writable } from 'node:stream';
import type { z } from 'zod';
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
import type { SessionTokens } from '../access/contract.ts';
import { newPermissionId } from '../ids.ts';
import type { PermissionResult } from '../permissions/session-permissions.ts';
import type { PermissionAsk, TurnTask } from '../turns/turn.ts';
import { Assignment, breach, type Claim } from './assignment.ts';
import { FloodGuard } from './flood.ts';
import type { Place } from './place.ts';
import { wholeTranscript } from './whole-transcript.ts';

/** The name that agents know the session's own MCP server by. */
const SESSION_MCP = 'cella';
/** What a runner takes as no limit. */
const NO_LIMIT_MS = 2 ** 31 - 1;
/** How many calls of one executor are worked on at once. */
const IN_FLIGHT = 128;

export interface KeyAsked {
  readonly task: TurnTask;
  readonly token: string;
  readonly provider: string;
  readonly executor: string;
}

export interface LinkParts {
  readonly executorId: string;
  readonly sessionId: string;
  readonly place: Place;
  readonly tokens: Pick<SessionTokens, 'check'>;
  /** The person's key, where keys are given just in time. Without it they stay behind the gateway. */
  readonly keyFor?: ((asked: KeyAsked) => Promise<{ api_key: string; base_url: string }>) | undefined;
  readonly onUnforeseen: (error: unknown) => void;
}

export class ExecutorLink {
  readonly #parts: LinkParts;
  readonly #peer: RpcPeer;
  readonly #guard = new FloodGuard();
  #current: Assignment | undefined;

  constructor({ stdout, stdin }: { readonly stdout: Readable; readonly stdin: Writable }, parts: LinkParts) {
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
    const { sessionId, executorId, place, keyFor } = this.#parts;
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
      throw breach(`speaks version ${protocol_version} of the protocol, and this server ${PROTOCOL_VERSION}`);
    }
  }

  async ping(timeoutMs: number): Promise<void> {
    await this.#peer.call(Ping, {}, { timeoutMs });
  }

  /** Resolves with how the turn ended. It has the deadline of its task, and no other. */
  async execute(task: TurnTask, token: string): Promise<TaskOutcome> {
    const { place } = this.#parts;
    const current = new Assignment(task, token);
    this.#current = current;
    try {
      const outcome = await this.#peer.call(ExecutePrompt, {
        session_token: token,
        session_id: task.session.id,
        task_id: task.turn,
        agentic_tool: task.agent,
        prompt: task.prompt,
        cwd: place.cwd,
        permission_mode: task.mode,
        timeout_ms: task.timeoutMs === 0 ? NO_LIMIT_MS : task.timeoutMs,
        ...(task.model === undefined ? {} : { model: task.model }),
        ...(task.tools === undefined ? {} : { tools: task.tools }),
        ...(task.conversation === undefined ? {} : { conversation: task.conversation }),
      });
      return this.#guarded(() => current.check(outcome));
    } finally {
      this.#current = undefined;
    }
  }

  /** Undefined where there is no such conversation. `timeoutMs` is for each part of it. */
  async readTranscript({ agent }: TurnTask, conversation: string, timeoutMs: number): Promise<string | undefined> {
    const { place } = this.#parts;
    const where = { cwd: place.cwd, home_dir: place.homeDir, program_dir: await place.programDir(agent) };
    const wanted = { agentic_tool: agent, conversation, ...where };
    return await wholeTranscript(conversation, (part) =>
      this.#peer.call(ReadTranscript, { ...wanted, part }, { timeoutMs }),
    );
  }

  async stopTask(turn: string, timeoutMs: number): Promise<void> {
    await this.#peer.call(StopTask, { task_id: turn }, { timeoutMs });
  }

  async shutdown(reason: string, graceMs: number): Promise<void> {
    await this.#peer.call(Shutdown, { reason: reason.slice(0, 1000), grace_ms: graceMs }, { timeoutMs: graceMs });
  }

  /** What waits fails with this. */
  cut(reason: CellaError): void {
    this.#peer.close(reason);
  }

  #listen(): void {
    const { place, keyFor, executorId } = this.#parts;
    this.#peer
      .handle(GetExecutionContext, async (claim) => {
        const { task } = await this.#admit(claim);
        const program_dir = await place.programDir(task.agent);
        return { home_dir: place.homeDir, program_dir, env: {}, profile: task.profile, session_mcp: SESSION_MCP };
      })
      .handle(ReportMessage, async ({ sequence, event, ...claim }) => {
        const current = this.#claimed(claim);
        // What is out of order is seen before anything is waited for.
        await this.#guarding(current.take(sequence, event, this.#allowed(claim, current)));
        return {};
      })
      .handle(RequestPermission, async ({ session_token, session_id, task_id, ...ask }) => {
        const { task } = await this.#admit({ session_token, session_id, task_id });
        return await this.#permit(task, ask);
      })
      .handle(GetApiKey, async ({ provider, ...claim }) => {
        const { task } = await this.#admit(claim);
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
  async #permit(task: TurnTask, ask: PermissionAsk): Promise<z.input<(typeof RequestPermission)['result']>> {
    const asked = Promise.withResolvers<string>();
    const decided = task.permit({ ...ask, onAsked: asked.resolve });
    const first = await Promise.race([asked.promise, decided]);
    if (typeof first !== 'string') return { request_id: first.id ?? newPermissionId(), decision: decisionOf(first) };
    // Where the connection is gone, so is whoever waits for it.
    const tell = (decision: z.input<z.ZodObject<typeof decisionFields>>) =>
      this.#peer.call(PermissionResolved, { task_id: task.turn, request_id: first, ...decision }).catch(() => {});
    void decided.then(
      (told) => tell(decisionOf(told)),
      () => tell({ outcome: 'denied', reason: 'The permission could not be asked for.' }),
    );
    return { request_id: first };
  }

  async #admit(claim: Claim): Promise<Assignment> {
    const current = this.#claimed(claim);
    await this.#allowed(claim, current);
    return current;
  }

  #claimed(claim: Claim): Assignment {
    return this.#guarded(() => {
      this.#guard.count({ messages: 1 });
      if (!this.#current) throw breach('spoke for a task where it has none');
      this.#current.admit(claim);
      return this.#current;
    });
  }

  /** Revoked, expired or used up meanwhile: from the next call on it is not heard. */
  #allowed({ session_token }: Claim, { task }: Assignment): Promise<unknown> {
    const { tokens, sessionId, executorId } = this.#parts;
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
    if (error instanceof CellaError && CUTTING.has(error.code)) this.cut(error);
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

function decisionOf({ outcome, reason, text }: PermissionResult) {
  return { outcome, ...(reason === undefined ? {} : { reason }), ...(text === undefined ? {} : { text }) };
}

/** An executor that has earned one of these is not heard any more. */
export const CUTTING: ReadonlySet<string> = new Set([
  'RUNNER_PROTOCOL',
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'RATE_LIMITED',
]);
