/** A manifest, checked before its checkpoint is stored. */

import { CellaError } from '../protocol/errors.ts';
import { Manifest } from '../protocol/kernel-state.ts';

/** `written`: how many bytes came. */
export function checkManifest(manifest: Manifest, written: number): Manifest {
  const checked = check(manifest);
  const told = checked.segments.reduce((sum, { bytes }) => sum + bytes, 0);
  if (told === written) return checked;
  const message = `Cannot store checkpoint ${checked.id}: its segments have ${told} bytes, and ${written} were written.`;
  throw new CellaError('STORAGE_FAILED', message);
}

function check(manifest: Manifest): Manifest {
  const parsed = Manifest.safeParse(manifest);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot store this checkpoint: its manifest is none (${problems.join('; ')}).`,
  );
}
