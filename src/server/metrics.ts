/** Metrics for Prometheus: requests, sessions, agents, and the process. */

import { performance } from 'node:perf_hooks';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { singleFlight } from '../lib/single-flight.ts';
import { refusalKinds } from '../protocol/access-models.ts';
import type { TokenUsage } from '../protocol/turn.ts';
import type { AuditLog } from './access/audit-log.ts';
import type { ClientKind } from './request-limits.ts';
import type { RunnerPoolMetrics } from './runners/runner-pool.ts';
import type { SessionManager } from './sessions/session-manager.ts';
import type { SessionMetrics } from './sessions/session-types.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300];

type Measured = Pick<SessionManager, 'metrics' | 'kernelMemory' | 'onEnded'>;

/** Why a client was disconnected: it did not read, or was no longer authorized. */
export type Dropped = 'slow' | 'refused';

export class ServerMetrics {
  readonly #registry = new Registry();
  readonly #requests: Histogram<'method' | 'route' | 'status'>;
  readonly #clients: Gauge<'kind'>;
  readonly #dropped: Counter<'why'>;
  readonly #executions: Histogram<'status'>;
  /** Asks every live kernel, so concurrent callers share one answer. */
  readonly #measured: () => Promise<string>;

  /** `agents`: what is known of them now. */
  constructor(sessions: Measured, agents: () => AgentMetrics, audit: Pick<AuditLog, 'refusals'>) {
    const registers = [this.#registry];
    registerProcessMetrics(this.#registry);
    this.#requests = new Histogram({
      name: 'cella_http_request_seconds',
      help: 'How long requests took until their response began.',
      labelNames: ['method', 'route', 'status'],
      buckets: SECONDS,
      registers,
    });
    this.#clients = new Gauge({
      name: 'cella_clients',
      help: 'Clients that currently follow a session.',
      labelNames: ['kind'],
      registers,
    });
    this.#dropped = new Counter({
      name: 'cella_clients_dropped_total',
      help: 'Clients that were disconnected.',
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
    let measured: Measurement;
    registerMeasured(this.#registry, () => measured);
    this.#measured = singleFlight(async () => {
      const [now, memory] = await Promise.all([sessions.metrics(), sessions.kernelMemory()]);
      measured = { ...now, ...agents(), memory, refusals: audit.refusals };
      return await this.#registry.metrics();
    });
    sessions.onEnded((status, ms) => this.#executions.observe({ status }, ms / 1000));
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  request(method: string, route: string, status: number, ms: number): void {
    this.#requests.observe({ method, route, status: String(status) }, ms / 1000);
  }

  /** Returns a function to call when the client disconnects. */
  client(kind: ClientKind): () => void {
    this.#clients.inc({ kind });
    return () => this.#clients.dec({ kind });
  }

  dropped(why: Dropped): void {
    this.#dropped.inc({ why });
  }

  async text(): Promise<string> {
    return await this.#measured();
  }
}

interface AgentMetrics {
  readonly runners: RunnerPoolMetrics;
  readonly models: ModelTotals;
}

interface Measurement extends SessionMetrics, AgentMetrics {
  readonly memory: number;
  readonly refusals: AuditLog['refusals'];
}

/** What others count. `now` is asked when somebody reads the metrics. */
function registerMeasured(registry: Registry, now: () => Measurement): void {
  const registers = [registry];
  const gauge = (name: string, help: string, valueIn: (now: Measurement) => number) =>
    new Gauge({
      ...{ name, help, registers },
      collect() {
        this.set(valueIn(now()));
      },
    });
  const counter = (name: string, help: string, valueIn: (now: Measurement) => number) =>
    new Counter({
      ...{ name, help, registers },
      collect() {
        this.reset();
        this.inc(valueIn(now()));
      },
    });
  type Values = Iterable<readonly [string, number]>;
  const counters = (name: string, help: string, label: 'status' | 'kind', valuesIn: (now: Measurement) => Values) =>
    new Counter({
      ...{ name, help, registers, labelNames: [label] },
      collect() {
        this.reset();
        for (const [value, count] of valuesIn(now())) this.inc({ [label]: value }, count);
      },
    });
  gauge('cella_kernels_live', 'Live kernels.', ({ pool }) => pool.live);
  gauge('cella_kernels_spare', 'Spare kernels that are ready for a session.', ({ pool }) => pool.spare);
  gauge(
    'cella_kernels_hibernated',
    'Sessions of this server whose kernel is hibernated.',
    ({ pool }) => pool.hibernated,
  );
  gauge('cella_kernels_memory_bytes', 'Private memory of live kernels.', ({ memory }) => memory);
  counter(
    'cella_kernel_recoveries_total',
    'Kernels that were recovered after they died.',
    ({ pool }) => pool.recoveries,
  );
  counter(
    'cella_kernel_restarts_total',
    'Kernels that were reset or restarted on request.',
    ({ restarts }) => restarts,
  );
  counter(
    'cella_kernel_waits_total',
    'Calls that waited until another kernel was hibernated.',
    ({ pool }) => pool.waits,
  );
  gauge('cella_executions_running', 'Running executions.', ({ running }) => running);
  gauge('cella_executions_queued', 'Queued executions.', ({ queued }) => queued);
  counter('cella_events_total', 'Events that were written.', ({ events }) => events);
  counter('cella_events_lost_total', 'Events that could not be stored.', ({ eventsLost }) => eventsLost);
  counter('cella_event_append_failures_total', 'Writes of events that failed.', ({ appendFailures }) => appendFailures);
  gauge('cella_event_readers', 'Current readers of events.', ({ readers }) => readers);
  counters('cella_executions_total', 'Ended executions, by status.', 'status', ({ executions }) =>
    Object.entries(executions),
  );
  counters('cella_turns_total', 'Ended turns of coding agents, by status.', 'status', ({ turns }) =>
    Object.entries(turns),
  );
  counters('cella_refused_total', 'Refused requests and actions, by kind.', 'kind', ({ refusals }) =>
    refusalKinds.map((kind) => [kind, refusals.get(kind) ?? 0] as const),
  );
  gauge('cella_runners_live', 'Live runners of coding agents.', ({ runners }) => runners.live);
  gauge('cella_runners_starting', 'Runners that are starting.', ({ runners }) => runners.starting);
  gauge('cella_runners_busy', 'Runners with a turn.', ({ runners }) => runners.busy);
  gauge('cella_runners_waiting', 'Turns that wait for a free runner.', ({ runners }) => runners.waiting);
  counter('cella_runners_started_total', 'Runners that were started.', ({ runners }) => runners.started);
  counter('cella_runner_failures_total', 'Runners that ended unexpectedly.', ({ runners }) => runners.failures);
  counter('cella_model_calls_total', 'Model calls through the gateway.', ({ models }) => models.calls);
  counter('cella_model_usd_total', 'Cost of model calls with known prices, in USD.', ({ models }) => models.costUsd);
  counters('cella_model_tokens_total', 'Model tokens through the gateway.', 'kind', ({ models }) =>
    Object.entries(models.tokens),
  );
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
    help: 'How long the event loop of the server was busy.',
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
