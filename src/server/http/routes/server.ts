/** The server as its administrators see it: how it does, and its end. */

import * as serverRoutes from '../../../protocol/api/server-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { failureOf } from '../failure.ts';
import type { Service } from '../service.ts';

/** What the server knows of its own life. */
export interface ServerLife {
  facts(): Pick<serverRoutes.ServerStatus, 'pid' | 'startedAt' | 'url' | 'dataDir' | 'storage' | 'graceMs'> & {
    readonly maxKernels: number;
  };
  /** Begins its end, or hurries it. Returns at once. */
  stop(graceMs?: number): void;
  /** Resolves when it has saved everything, or knows what it could not save. */
  readonly saved: Promise<CellaError | undefined>;
}

export function addServerRoutes({ routes, host, stopping, version }: Service, life: ServerLife): void {
  routes.add(serverRoutes.GetServer, async () => {
    const { maxKernels, ...facts } = life.facts();
    const { pool, running, queued } = await host.metrics();
    const { live, spare, hibernated } = pool;
    return {
      ...facts,
      version,
      stopping: stopping.aborted,
      sessions: await host.count(),
      kernels: { live, spare, hibernated, most: maxKernels },
      executions: { running, queued },
    };
  });

  routes.add(serverRoutes.StopServerRoute, async ({ body: { pid, graceMs }, about }) => {
    about({ target: `process ${pid}` });
    const own = life.facts().pid;
    if (pid !== own) throw new CellaError('INVALID_REQUEST', `This server is process ${own}, and not ${pid}.`);
    life.stop(graceMs);
    return undefined;
  });

  routes.add(serverRoutes.GetServerEnd, async () => {
    const failed = await life.saved;
    return failed ? { failure: failureOf(failed).error } : {};
  });
}
