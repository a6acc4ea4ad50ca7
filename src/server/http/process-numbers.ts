/** What the process itself takes, as numbers for Prometheus: each is measured when somebody asks, so that an idle server sleeps. */

import { performance } from 'node:perf_hooks';
import { Counter, collectDefaultMetrics, type Registry } from 'prom-client';

/** These come of a timer that wakes the process all the time. */
const SAMPLED = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'];
/** The longest that a timer can wait. */
const NEVER_MS = 2_147_483_647;

export function processNumbers(registry: Registry): void {
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
