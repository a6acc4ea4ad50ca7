/** Numbers for Prometheus: what the server does, and what its sessions do. */

import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { refusalKinds } from '../../protocol/access-models.ts';
import type { AuditLog } from '../access/audit-log.ts';
import type { SessionManager, SessionMetrics } from '../sessions/session-types.ts';
import { type AgentNumbers, agentNumbers } from './agent-numbers.ts';
import type { ClientKind } from './followers.ts';
import { hostNumbers } from './host-numbers.ts';
import { processNumbers } from './process-numbers.ts';

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
  constructor(host: Measured, agents: () => AgentNumbers, audit: Pick<AuditLog, 'refusals'>) {
    const registers = [this.#registry];
    processNumbers(this.#registry);
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
    const [tellHost, tellAgents] = [hostNumbers(this.#registry), agentNumbers(this.#registry)];
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
