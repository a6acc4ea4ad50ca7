/** Numbers of coding agents for Prometheus: their executors, and what they have used of models. */

import { Counter, Gauge, type Registry } from 'prom-client';
import type { ModelTotals } from '../gateway/model-counts.ts';
import type { RunnerPoolMetrics } from '../runners/runner-pool.ts';

export interface AgentNumbers {
  readonly workers: RunnerPoolMetrics;
  readonly models: ModelTotals;
}

/** Gives what to call with the numbers, before somebody reads them. */
export function agentNumbers(registry: Registry): (told: AgentNumbers) => void {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const live = gauge('cella_agents_live', 'Executors of coding agents that live now.');
  const starting = gauge('cella_agents_starting', 'Of those, the ones that are not there yet.');
  const busy = gauge('cella_agents_busy', 'Of those, the ones that have a turn.');
  const waiting = gauge('cella_agents_waiting', 'Turns that wait until an executor is free.');
  const started = counter('cella_agents_started_total', 'Executors that began.');
  const failures = counter('cella_agent_failures_total', 'Executors that ended without being asked to.');
  const calls = counter('cella_model_calls_total', 'Calls of models through the gateway.');
  const cost = counter('cella_model_usd_total', 'What those have cost, where prices are known.');
  const tokens = new Counter({
    name: 'cella_model_tokens_total',
    help: 'Tokens of models that went through the gateway.',
    labelNames: ['kind'],
    registers,
  });
  return ({ workers, models }) => {
    live.set(workers.live);
    starting.set(workers.starting);
    busy.set(workers.busy);
    waiting.set(workers.waiting);
    // Others count; here a counter only says what it has come to.
    for (const one of [started, failures, calls, cost, tokens]) one.reset();
    started.inc(workers.started);
    failures.inc(workers.failures);
    calls.inc(models.calls);
    cost.inc(models.costUsd);
    for (const [kind, count] of Object.entries(models.tokens)) tokens.inc({ kind }, count);
  };
}
