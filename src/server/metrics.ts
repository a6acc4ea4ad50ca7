/** Metrics for Prometheus: requests, sessions, agents, and the process. */

import { performance } from 'node:perf_hooks';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { refusalKinds } from '../protocol/access-models.ts';
import type { TokenUsage } from '../protocol/turn.ts';
import type { AuditLog } from './access/audit-log.ts';
import type { ClientKind } from './request-limits.ts';
import type { RunnerPoolMetrics } from './runners/runner-pool.ts';
import type { SessionManager } from './sessions/session-manager.ts';
import type { SessionMetrics } from './sessions/session-types.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300];

type Measured = Pick<SessionManager, 'metrics' | 'kernelMemory' | 'onEnded'>;

/** Why a client was let go: it did not read, or may no longer. */
export type Dropped = 'slow' | 'refused';

export class HttpMetrics {
  readonly #registry = new Registry();
  readonly #requests: Histogram<'method' | 'route' | 'status'>;
  readonly #clients: Gauge<'kind'>;
  readonly #dropped: Counter<'why'>;
  readonly #executions: Histogram<'status'>;
  readonly #memory: Gauge;
  readonly #host: Measured;
  readonly #update: (told: SessionMetrics) => void;

  /** `agents`: what is known of them now. */
  constructor(host: Measured, agents: () => AgentMetrics, audit: Pick<AuditLog, 'refusals'>) {
    const registers = [this.#registry];
    registerProcessMetrics(this.#registry);
    this.#requests = new Histogram({
      name: 'cella_http_request_seconds',
      help: 'How long requests took until their answer began.',
      labelNames: ['method', 'route', 'status'],
      buckets: SECONDS,
      registers,
    });
    this.#clients = new Gauge({
      name: 'cella_clients',
      help: 'Clients that follow a session now.',
      labelNames: ['kind'],
      registers,
    });
    this.#dropped = new Counter({
      name: 'cella_clients_dropped_total',
      help: 'Clients that were let go.',
      labelNames: ['why'],
      registers,
    });
    this.#executions = new Histogram({
      name: 'cella_execution_seconds',
      help: 'How long executions took, from their turn to their durable result.',
      labelNames: ['status'],
      buckets: SECONDS,
      registers,
    });
    this.#memory = new Gauge({
      name: 'cella_kernels_memory_bytes',
      help: 'Private memory of the kernels that live now.',
      registers,
    });
    const refused = new Counter({
      name: 'cella_refused_total',
      help: 'What was refused, by its kind.',
      labelNames: ['kind'],
      registers,
    });
    this.#host = host;
    const [tellHost, tellAgents] = [registerHostMetrics(this.#registry), registerAgentMetrics(this.#registry)];
    this.#update = (told) => {
      tellHost(told);
      tellAgents(agents());
      refused.reset();
      for (const kind of refusalKinds) refused.inc({ kind }, audit.refusals.get(kind) ?? 0);
    };
    host.onEnded((status, ms) => this.#executions.observe({ status }, ms / 1000));
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  request(method: string, route: string, status: number, ms: number): void {
    this.#requests.observe({ method, route, status: String(status) }, ms / 1000);
  }

  /** Gives what to call when it has gone. */
  client(kind: ClientKind): () => void {
    this.#clients.inc({ kind });
    return () => this.#clients.dec({ kind });
  }

  dropped(why: Dropped): void {
    this.#dropped.inc({ why });
  }

  async text(): Promise<string> {
    const [told, memory] = await Promise.all([this.#host.metrics(), this.#host.kernelMemory()]);
    this.#update(told);
    this.#memory.set(memory);
    return await this.#registry.metrics();
  }
}

/** Gives what to call with the numbers of the sessions, before somebody reads them. */
function registerHostMetrics(registry: Registry): (told: SessionMetrics) => void {
  const registers = [registry];
  const gauge = (name: string, help: string) => {
    const made = new Gauge({ name, help, registers });
    return (value: number) => made.set(value);
  };
  // The host counts; here a counter only says what it has come to.
  const counter = (name: string, help: string) => {
    const made = new Counter({ name, help, registers });
    return (value: number) => {
      made.reset();
      made.inc(value);
    };
  };
  const live = gauge('cella_kernels_live', 'Kernels that live now.');
  const spare = gauge('cella_kernels_spare', 'Kernels that wait for a session.');
  const hibernated = gauge('cella_kernels_hibernated', 'Sessions of this server whose kernel sleeps.');
  const recoveries = counter('cella_kernel_recoveries_total', 'Kernels that were brought back after they died.');
  const restarts = counter('cella_kernel_restarts_total', 'Kernels that somebody had reset or restarted.');
  const waits = counter('cella_kernel_waits_total', 'Calls that waited until another kernel had gone to sleep.');
  const running = gauge('cella_executions_running', 'Executions that run now.');
  const queued = gauge('cella_executions_queued', 'Executions that wait for their turn.');
  const events = counter('cella_events_total', 'Events that were written.');
  const lost = counter('cella_events_lost_total', 'Events that storage could not take.');
  const failures = counter('cella_event_append_failures_total', 'Writes of events that failed.');
  const readers = gauge('cella_event_readers', 'Readers of events now.');
  const executions = new Counter({
    name: 'cella_executions_total',
    help: 'Executions that have ended, by how they did.',
    labelNames: ['status'],
    registers,
  });
  const turns = new Counter({
    name: 'cella_turns_total',
    help: 'Turns of coding agents that have ended, by how they did.',
    labelNames: ['status'],
    registers,
  });
  return (told) => {
    live(told.pool.live);
    spare(told.pool.spare);
    hibernated(told.pool.hibernated);
    recoveries(told.pool.recoveries);
    restarts(told.restarts);
    waits(told.pool.waits);
    running(told.running);
    queued(told.queued);
    events(told.events);
    lost(told.eventsLost);
    failures(told.appendFailures);
    readers(told.readers);
    executions.reset();
    for (const [status, count] of Object.entries(told.executions)) executions.inc({ status }, count);
    turns.reset();
    for (const [status, count] of Object.entries(told.turns)) turns.inc({ status }, count);
  };
}

export interface AgentMetrics {
  readonly runners: RunnerPoolMetrics;
  readonly models: ModelTotals;
}

/** Gives what to call with the numbers, before somebody reads them. */
function registerAgentMetrics(registry: Registry): (told: AgentMetrics) => void {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const live = gauge('cella_agents_live', 'Live runners of coding agents.');
  const starting = gauge('cella_agents_starting', 'Runners that are starting.');
  const busy = gauge('cella_agents_busy', 'Runners with a turn.');
  const waiting = gauge('cella_agents_waiting', 'Turns that wait for a free runner.');
  const started = counter('cella_agents_started_total', 'Runners that were started.');
  const failures = counter('cella_agent_failures_total', 'Runners that ended unexpectedly.');
  const calls = counter('cella_model_calls_total', 'Calls of models through the gateway.');
  const cost = counter('cella_model_usd_total', 'What those have cost, where prices are known.');
  const tokens = new Counter({
    name: 'cella_model_tokens_total',
    help: 'Tokens of models that went through the gateway.',
    labelNames: ['kind'],
    registers,
  });
  return ({ runners, models }) => {
    live.set(runners.live);
    starting.set(runners.starting);
    busy.set(runners.busy);
    waiting.set(runners.waiting);
    // Others count; here a counter only says what it has come to.
    for (const one of [started, failures, calls, cost, tokens]) one.reset();
    started.inc(runners.started);
    failures.inc(runners.failures);
    calls.inc(models.calls);
    cost.inc(models.costUsd);
    for (const [kind, count] of Object.entries(models.tokens)) tokens.inc({ kind }, count);
  };
}

/** These come of a timer that wakes the process all the time. */
const SAMPLED = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'];
/** The longest that a timer can wait. */
const NEVER_MS = 2_147_483_647;

function registerProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS });
  for (const name of SAMPLED) registry.removeSingleMetric(`nodejs_eventloop_lag_${name}_seconds`);
  new Counter({
    name: 'cella_event_loop_busy_seconds_total',
    help: 'How long the server was at work and not waiting for something to do.',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(performance.eventLoopUtilization().active / 1000);
    },
  });
}

interface ModelTotals {
  readonly calls: number;
  readonly costUsd: number;
  /** By kind. */
  readonly tokens: Readonly<Record<'input' | 'output' | 'cache_read' | 'cache_write', number>>;
}

export class ModelMetrics {
  #numbers: ModelTotals = { calls: 0, costUsd: 0, tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 } };

  get numbers(): ModelTotals {
    return this.#numbers;
  }

  add({ input, output, cacheRead, cacheWrite, costUsd = 0 }: TokenUsage): void {
    const { calls, costUsd: before, tokens } = this.#numbers;
    this.#numbers = {
      calls: calls + 1,
      costUsd: before + costUsd,
      tokens: {
        input: tokens.input + input,
        output: tokens.output + output,
        cache_read: tokens.cache_read + cacheRead,
        cache_write: tokens.cache_write + cacheWrite,
      },
    };
  }
}
