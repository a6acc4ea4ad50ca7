/** Numbers for Prometheus: what the server does, and what its sessions do. */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { HostMetrics, SessionHost } from '../sessions/contract.ts';
import { type AgentNumbers, agentNumbers } from './agent-numbers.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300];

type Measured = Pick<SessionHost, 'metrics' | 'kernelMemory' | 'onEnded'>;

export type ClientKind = 'websocket' | 'ndjson' | 'sse' | 'terminal';
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
  readonly #update: (told: HostMetrics) => void;

  /** `agents`: what is known of them now. */
  constructor(host: Measured, agents: () => AgentNumbers) {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
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
    this.#host = host;
    const [tellHost, tellAgents] = [hostNumbers(this.#registry), agentNumbers(this.#registry)];
    this.#update = (told) => {
      tellHost(told);
      tellAgents(agents());
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
function hostNumbers(registry: Registry): (told: HostMetrics) => void {
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
