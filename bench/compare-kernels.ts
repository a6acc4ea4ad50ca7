/** Kernels of the library beside ipykernel, in an order in which no measurement gets in another's way. */

import { measureDensity } from './measurements/density.ts';
import { measureFirstByte } from './measurements/first-byte.ts';
import { measureInterrupt } from './measurements/interrupt.ts';
import { measureMemory } from './measurements/memory.ts';
import { measureBigPrint, measureSmallPrints } from './measurements/prints.ts';
import { measureRollback } from './measurements/rollback.ts';
import { measureRoundTrip } from './measurements/round-trip.ts';
import { measureSpare } from './measurements/spare.ts';
import { measureStart } from './measurements/start.ts';
import { measurePool, measureState } from './measurements/state.ts';
import { measureTemplate } from './measurements/template.ts';
import type { Plan } from './plan.ts';
import type { Progress } from './progress.ts';
import type { Kernels } from './result.ts';
import { rounded } from './statistics.ts';
import type { Subjects } from './subjects.ts';

export async function compareKernels(subjects: Subjects, plan: Plan, progress: Progress): Promise<Kernels> {
  progress.step('template');
  const template = await measureTemplate(subjects);
  progress.step('start');
  const start = await measureStart(subjects, plan.start, progress);
  progress.step('round trip');
  const roundTrip = await measureRoundTrip(subjects, plan.roundTrip, progress);
  progress.step('memory');
  const memory = await measureMemory(subjects, plan.memory, progress);
  progress.step('one big print');
  const bigPrint = await measureBigPrint(subjects, plan.bigPrint, progress);
  progress.step('many small prints');
  const smallPrints = await measureSmallPrints(subjects, plan.smallPrints, progress);
  progress.step('interrupt');
  const interrupt = await measureInterrupt(subjects, plan.interrupt, progress);
  progress.step('first byte');
  const firstByte = await measureFirstByte(subjects, plan.firstByte, progress);
  progress.step('density');
  const density = await measureDensity(subjects, template.pid, plan.density, progress);
  // Last, because spares stay for a while and would count as kernels.
  progress.step('first result from a spare');
  const spare = await measureSpare(subjects, plan.spare, progress);
  progress.step('rollback');
  const rollback = await measureRollback(subjects, plan.rollback, progress);
  progress.step('rollback of 1 GB');
  const rollback1gb = await measureRollback(subjects, plan.rollback1gb, progress);
  progress.step('checkpoints, forks, saves and waking');
  const state = await measureState(subjects, plan.state, progress);
  progress.step('many agents on few kernels');
  const pool = await measurePool(subjects, plan.pool, progress);
  await subjects.end(template.session);
  const templateMs = rounded(template.firstOpenMs - start.cellaMs);
  const templateMb = rounded(template.templateMb);
  return {
    start,
    spare,
    roundTrip,
    memory,
    bigPrint,
    smallPrints,
    interrupt,
    firstByte,
    density,
    rollback,
    rollback1gb,
    ...state,
    pool,
    templateMs,
    templateMb,
  };
}
