/** The table: each row is one attempt of a hostile user, next to the promise that it attacks. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Verdicts } from '../support/kernels/attack-code.ts';
import { everything } from '../support/run/depth.ts';
import { type Place, World } from './world.ts';

export interface Row {
  readonly name: string;
  readonly promise: string;
  readonly on: readonly Place[];
  /** Also in `npm test`; all rows run in `npm run test:attack`. */
  readonly quick?: boolean;
  /** False where the attempt takes all processors for itself: whose turn it is, is the system's business. */
  readonly stalls?: boolean;
  /** How much more memory than before the server may take meanwhile, if less than in other attempts. */
  readonly mostGrowthMb?: number;
  /** Throws where the attempt came through. What it did outside is looked at after it. */
  readonly attempt: (world: World) => Promise<void>;
}

export const everywhere: readonly Place[] = ['subprocess', 'container', 'user'];
/** What does not depend on where code runs. */
export const once: readonly Place[] = ['subprocess'];
export const rootHost: readonly Place[] = ['subprocess', 'container'];

type Options = Partial<Omit<Row, 'name' | 'promise' | 'attempt'>>;

/** Code whose value maps what it tried to how that ended: nothing may have been done. */
export function refused(name: string, promise: string, code: string, options: Options = {}): Row {
  const attempt = async ({ mallory }: World) => {
    const through: Verdicts = await mallory.through(code);
    expect(through).toEqual({});
  };
  return { name, promise, on: everywhere, ...options, attempt };
}

/** Code that may do what it likes to itself: nobody else may notice. */
export function contained(name: string, promise: string, code: string, options: Options & { ms?: number } = {}): Row {
  const { ms = 10_000, ...rest } = options;
  const attempt = async ({ mallory }: World) => void (await mallory.run(code, { timeoutMs: ms }));
  return { name, promise, on: everywhere, ...rest, attempt };
}

const MOST_MS = 180_000;

/** A machine that is busy with something else holds up everybody, too: a stall counts where it comes twice. */
async function tryRow(world: World, { attempt, stalls = true, mostGrowthMb }: Row): Promise<void> {
  for (const judged of [false, true]) {
    await world.arm();
    await attempt(world);
    if ((await world.check({ stalls: stalls && judged, mostGrowthMb })) || !stalls) return;
  }
}

export function attackTable(place: Place, rows: readonly Row[]): void {
  const here = rows.filter(({ on, quick }) => on.includes(place) && (everything || quick));
  let world: World;
  beforeAll(async () => {
    world = await World.open(place);
  }, 300_000);
  afterAll(async () => await world?.[Symbol.asyncDispose](), 60_000);
  const promises = Map.groupBy(here, ({ promise }) => promise);
  for (const [promise, attempts] of promises) {
    describe(promise, () => {
      for (const row of attempts) it(row.name, { timeout: MOST_MS }, () => tryRow(world, row));
    });
  }
}
