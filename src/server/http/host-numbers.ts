/** What the sessions of the server have come to, as numbers for Prometheus. */

import { Counter, Gauge, type Registry } from 'prom-client';
import type { SessionMetrics } from '../sessions/session-types.ts';

/** Gives what to call with the numbers of the sessions, before somebody reads them. */
export function hostNumbers(registry: Registry): (told: SessionMetrics) => void {
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
