/** Runs one turn of an agent from loading to end. It can be stopped, or time out, in every phase. */

import type { Agent, AgentAdapter, AgentSetup, AgentTurn, ModelAccess, TurnOutcome } from '../agents/agent-adapter.ts';
import { onAbort } from '../lib/abort.ts';
import type { AgentProfile } from '../protocol/agent-profile.ts';
import { CellaError, type ErrorCode, errorCodes } from '../protocol/errors.ts';
import type { TaskStatus } from '../protocol/runner-methods.ts';
import type { AgentFailure } from '../protocol/turn.ts';
import { killDescendants } from './descendants.ts';

/** How long an agent may take to stop. Then its processes are killed. */
const STOP_GRACE_MS = 5000;
const MOST_CHARACTERS = 2000;
/** The longest timer of Node. */
const LONGEST_MS = 2 ** 31 - 1;

type TurnPhase = 'loading' | 'opening' | 'prompting' | 'stopping' | 'closing';

export interface AgentTurnJob {
  readonly load: () => Promise<AgentAdapter>;
  /** Called once the agent is loaded: the setup depends on its provider. */
  readonly setup: (adapter: AgentAdapter, signal: AbortSignal) => Promise<AgentSetup>;
  readonly turn: Omit<AgentTurn, 'signal' | 'permit'> & {
    permit(ask: Parameters<AgentTurn['permit']>[0], signal: AbortSignal): ReturnType<AgentTurn['permit']>;
  };
  readonly timeoutMs: number;
  readonly stop: AbortSignal;
  readonly onPhase?: (phase: TurnPhase) => void;
  readonly graceMs?: number;
  /** Called for an agent that does not stop. Default: kills its processes. */
  readonly onAbandoned?: () => void;
}

export interface TurnEnd extends Omit<TurnOutcome, 'status'> {
  readonly status: TaskStatus;
}

/** Never rejects: failures are results of the turn. */
export async function runAgentTurn(job: AgentTurnJob): Promise<TurnEnd> {
  const { timeoutMs, graceMs = STOP_GRACE_MS, onPhase = () => {}, onAbandoned = killDescendants } = job;
  const late = new AbortController();
  const timer = timeoutMs < LONGEST_MS ? setTimeout(() => late.abort(), timeoutMs) : undefined;
  const signal = AbortSignal.any([job.stop, late.signal]);
  const over = Promise.withResolvers<void>();
  let grace: NodeJS.Timeout | undefined;
  onAbort(signal, () => {
    onPhase('stopping');
    grace = setTimeout(over.resolve, graceMs);
  });
  try {
    const abandoned = over.promise.then((): TurnOutcome => {
      onAbandoned();
      return { status: 'cancelled' };
    });
    const outcome = await Promise.race([attempt(job, signal, onPhase), abandoned]);
    return endOf(outcome, job, late.signal.aborted);
  } finally {
    clearTimeout(timer);
    clearTimeout(grace);
  }
}

async function attempt(
  job: AgentTurnJob,
  signal: AbortSignal,
  onPhase: (phase: TurnPhase) => void,
): Promise<TurnOutcome> {
  let agent: Agent | undefined;
  let key = '';
  try {
    onPhase('loading');
    const adapter = await job.load();
    onPhase('opening');
    const setup = await job.setup(adapter, signal);
    key = setup.model.key;
    if (signal.aborted) return { status: 'cancelled' };
    agent = await adapter.open(setup);
    if (signal.aborted) return { status: 'cancelled' };
    onPhase('prompting');
    const { turn } = job;
    return await agent.prompt({
      ...turn,
      signal,
      emit: (event) => turn.emit(event),
      permit: (ask) => (signal.aborted ? stopped() : turn.permit(ask, signal)),
    });
  } catch (error) {
    return { status: 'failed', error: failureOf(error, key) };
  } finally {
    onPhase('closing');
    // The result is known; a failure to close does not change it.
    await agent?.close().catch((error: unknown) => console.error('The agent could not be closed:', error));
  }
}

async function stopped(): Promise<{ allowed: false; reason: string }> {
  return { allowed: false, reason: 'The turn is being stopped.' };
}

/** A turn that finished is completed, also if it was told to stop meanwhile. */
function endOf(outcome: TurnOutcome, { stop, timeoutMs }: AgentTurnJob, isLate: boolean): TurnEnd {
  if (outcome.status === 'completed') return outcome;
  const { error: _, ...known } = outcome;
  if (isLate && !stop.aborted) {
    const error = failure('DEADLINE_EXCEEDED', `The turn has not ended within ${timeoutMs} ms.`);
    return { ...known, status: 'timed_out', error };
  }
  return stop.aborted ? { ...known, status: 'cancelled' } : outcome;
}

/** Removes the agent's key from the message. */
function failureOf(error: unknown, key: string): AgentFailure {
  const why = error instanceof Error ? error.message : String(error);
  const message = (key === '' ? why : why.replaceAll(key, '…')).slice(0, MOST_CHARACTERS);
  if (error instanceof CellaError) return { code: error.code, message, advice: error.advice };
  return failure('AGENT_FAILED', message);
}

export function failure(code: ErrorCode, message: string): AgentFailure {
  return { code, message, advice: errorCodes[code].advice };
}

/** For work that calls no model: a closed port and a dummy key. */
export const noModelAccess: ModelAccess = { baseUrl: 'http://127.0.0.1:9', key: 'no-model-is-called' };

export function throughGateway(gatewayUrl: string, { provider }: AgentAdapter, token: string): ModelAccess {
  return { baseUrl: `${gatewayUrl}/${provider}`, key: token };
}

/** Adds the session's MCP server to the profile. It replaces a server of the same name. */
export function withSessionServer(
  profile: AgentProfile,
  name: string,
  gatewayUrl: string,
  token: string,
): AgentProfile {
  const own = { type: 'http', url: `${gatewayUrl}/mcp`, headers: { Authorization: `Bearer ${token}` } } as const;
  return { ...profile, mcpServers: { ...profile.mcpServers, [name]: own } };
}

export interface AgentLoader {
  readonly names: readonly string[];
  /** Throws `AGENT_UNKNOWN`. */
  load(name: string): Promise<AgentAdapter>;
}
