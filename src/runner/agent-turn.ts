/** Runs one turn of an agent from loading to end. It can be stopped, or time out, in every phase. */

import type { Agent, AgentAdapter, AgentSetup, AgentTurn, ModelAccess } from '../agents/agent-adapter.ts';
import { onAbort } from '../lib/abort.ts';
import type { AgentEvent } from '../protocol/agent-events.ts';
import type { AgentProfile } from '../protocol/agent-profile.ts';
import { CellaError } from '../protocol/errors.ts';
import type { PermissionAnswer, PermissionRequest } from '../protocol/permission.ts';
import { type AgentFailure, type TurnResult, toAgentFailure } from '../protocol/turn.ts';
import { killDescendants } from './own-process.ts';

/** How long an agent may take to stop. Then its processes are killed. */
const STOP_GRACE_MS = 5000;
const MOST_CHARACTERS = 2000;

type TurnPhase = 'loading' | 'opening' | 'prompting' | 'stopping' | 'closing';

export interface AgentTurnJob {
  readonly load: () => Promise<AgentAdapter>;
  /** Called once the agent is loaded: the setup depends on its provider. */
  readonly setup: (adapter: AgentAdapter, signal: AbortSignal) => Promise<AgentSetup>;
  readonly turn: Omit<AgentTurn, 'signal' | 'permit'>;
  /** Asks a person. The answer is not used once `signal` has aborted. */
  readonly permit: (request: PermissionRequest, signal: AbortSignal) => Promise<PermissionAnswer>;
  /** Undefined means no limit: then the caller must stop the turn. */
  readonly timeoutMs?: number | undefined;
  readonly stop: AbortSignal;
  readonly onPhase?: (phase: TurnPhase) => void;
  readonly graceMs?: number;
  /** Called for an agent that does not stop. Default: kills its processes. */
  readonly onAbandoned?: () => void;
}

/** Never rejects: failures are results of the turn. */
export async function runAgentTurn(job: AgentTurnJob): Promise<TurnResult> {
  const { timeoutMs, graceMs = STOP_GRACE_MS, onPhase = () => {}, onAbandoned = killDescendants } = job;
  const late = new AbortController();
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => late.abort(), timeoutMs);
  const signal = AbortSignal.any([job.stop, late.signal]);
  const over = Promise.withResolvers<void>();
  let grace: NodeJS.Timeout | undefined;
  const stop = () => {
    onPhase('stopping');
    grace = setTimeout(over.resolve, graceMs);
  };
  using _stopped = onAbort(signal, stop);
  try {
    const abandoned = over.promise.then((): TurnResult => {
      onAbandoned();
      return { status: 'cancelled' };
    });
    const result = await Promise.race([attempt(job, signal, onPhase), abandoned]);
    return finalResult(result, job, late.signal.aborted);
  } finally {
    clearTimeout(timer);
    clearTimeout(grace);
  }
}

async function attempt(
  job: AgentTurnJob,
  signal: AbortSignal,
  onPhase: (phase: TurnPhase) => void,
): Promise<TurnResult> {
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
    const { turn, permit } = job;
    const result = await agent.prompt({
      ...turn,
      signal,
      emit: (event) => turn.emit(withoutKeyIn(event, key)),
      permit: (request, own) => permitUnlessStopped(request, own ? AbortSignal.any([signal, own]) : signal, permit),
    });
    return result.error ? { ...result, error: withoutKey(result.error, key) } : result;
  } catch (error) {
    return { status: 'failed', error: withoutKey(toAgentFailure(error, 'AGENT_FAILED'), key) };
  } finally {
    onPhase('closing');
    // The result is known; a failure to close does not change it.
    await agent?.close().catch((error: unknown) => console.error('The agent could not be closed:', error));
  }
}

/** A stopped turn counts as not allowed, whatever the answer. */
async function permitUnlessStopped(
  request: PermissionRequest,
  signal: AbortSignal,
  permit: AgentTurnJob['permit'],
): Promise<PermissionAnswer> {
  const stopped: PermissionAnswer = { allowed: false, reason: 'The turn is being stopped.' };
  if (signal.aborted) return stopped;
  const aborted = Promise.withResolvers<PermissionAnswer>();
  using _listener = onAbort(signal, () => aborted.resolve(stopped));
  const answered = permit(request, signal);
  answered.catch(() => {}); // thrown below, unless it was stopped first
  return await Promise.race([answered, aborted.promise]);
}

/** A turn that finished is completed, even if it was stopped meanwhile. */
function finalResult(result: TurnResult, { stop, timeoutMs }: AgentTurnJob, isLate: boolean): TurnResult {
  if (result.status === 'completed') return result;
  const { error: _, ...known } = result;
  if (stop.aborted) return { ...known, status: 'cancelled' };
  if (!isLate) return result;
  const error = new CellaError('DEADLINE_EXCEEDED', `The turn has not ended within ${timeoutMs} ms.`);
  return { ...known, status: 'timed_out', error: toAgentFailure(error) };
}

/** Agents and providers may repeat the key in what they say of an error. */
function withoutKey({ message, ...rest }: AgentFailure, key: string): AgentFailure {
  const cleaned = key === '' ? message : message.replaceAll(key, '…');
  return { ...rest, message: cleaned.slice(0, MOST_CHARACTERS) };
}

function withoutKeyIn(event: AgentEvent, key: string): AgentEvent {
  return event.type === 'agent_error' ? { ...event, error: withoutKey(event.error, key) } : event;
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
