/** Numbers for Prometheus: what the server does, and what its sessions do. */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { HostMetrics } from '../sessions/contract.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300];

export type ClientKind = 'websocket' | 'ndjson' | 'sse' | 'terminal';
/** Why a client was let go: it did not read, or may no longer. */
export type Dropped = 'slow' | 'refused';

export class HttpMetrics {
  readonly #registry = new Registry();
  readonly #requests: Histogram<'method' | 'route' | 'status'>;
  readonly #clients: Gauge<'kind'>;
  readonly #dropped: Counter<'why'>;
  readonly #host: () => Promise<HostMetrics>;
  readonly #update: (told: HostMetrics) => void;

  constructor(host: () => Promise<HostMetrics>) {
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
    this.#host = host;
    this.#update = hostGauges(this.#registry);
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
    this.#update(await this.#host());
    return await this.#registry.metrics();
  }
}

/** Gives what to call with the numbers of the sessions, before somebody reads them. */
function hostGauges(registry: Registry): (told: HostMetrics) => void {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  const live = gauge('cella_kernels_live', 'Kernels that live now.');
  const spare = gauge('cella_kernels_spare', 'Kernels that wait for a session.');
  const hibernated = gauge('cella_kernels_hibernated', 'Sessions of this server whose kernel sleeps.');
  const recoveries = gauge('cella_kernel_recoveries_total', 'Kernels that were brought back after they died.');
  const waits = gauge('cella_kernel_waits_total', 'Calls that waited until another kernel had gone to sleep.');
  const running = gauge('cella_executions_running', 'Executions that run now.');
  const queued = gauge('cella_executions_queued', 'Executions that wait for their turn.');
  const events = gauge('cella_events_total', 'Events that were written.');
  const lost = gauge('cella_events_lost_total', 'Events that storage could not take.');
  const failures = gauge('cella_event_append_failures_total', 'Writes of events that failed.');
  const readers = gauge('cella_event_readers', 'Readers of events now.');
  const executions = new Gauge({
    name: 'cella_executions_total',
    help: 'Executions that have ended, by how they did.',
    labelNames: ['status'],
    registers,
  });
  return (told) => {
    live.set(told.pool.live);
    spare.set(told.pool.spare);
    hibernated.set(told.pool.hibernated);
    recoveries.set(told.pool.recoveries);
    waits.set(told.pool.waits);
    running.set(told.running);
    queued.set(told.queued);
    events.set(told.events);
    lost.set(told.eventsLost);
    failures.set(told.appendFailures);
    readers.set(told.readers);
    for (const [status, count] of Object.entries(told.executions)) executions.set({ status }, count);
  };
}
