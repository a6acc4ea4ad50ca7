/** The column of one combination: nine tests, each in a cell of its own. */

import { describe, test } from 'vitest';
import { canRunDocker } from '../support/docker/docker.ts';
import { noBypass } from './bypass.ts';
import { Cell, type Combination } from './cell.ts';
import { configuredBefore, listAlways, syncOnStart } from './configured.ts';
import { type Feature, features } from './features.ts';
import { addBlocked, removeBlocked, syncAllowed } from './locked.ts';
import { importAfterSync, survives } from './packages.ts';

const proofs: Record<Feature, (cell: Cell) => Promise<void>> = {
  F1: configuredBefore,
  F2: syncOnStart,
  F3: listAlways,
  F4: addBlocked,
  F5: removeBlocked,
  F6: syncAllowed,
  F7: noBypass,
  F8: importAfterSync,
  F9: survives,
};

/** Containers start slowly, and F7 tries very much. */
const LONG = { timeout: 180_000 };

export function matrix(combination: Combination): void {
  const { executor, storage } = combination;
  const cannot = executor === 'container' && !canRunDocker;
  describe.skipIf(cannot)(`${executor} × ${storage}`, () => {
    test.each(Object.entries(features))('%s %s', LONG, async (feature) => {
      await proofs[feature as Feature](await Cell.open(combination));
    });
  });
}
