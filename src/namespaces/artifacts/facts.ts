/** What is said of an artifact, checked: kernels send it, and it is kept as JSON. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { ArtifactFacts } from '../../protocol/namespace-models.ts';

const MOST_METADATA_BYTES = 64 * 1024;

/** Keys of objects and items of lists, at every depth. */
const MOST_METADATA_PARTS = 1000;

export function checkFacts(given: { readonly metadata?: unknown } & Record<string, unknown>): ArtifactFacts {
  if (partsOf(given.metadata) > MOST_METADATA_PARTS) {
    throw invalid(
      `its metadata has more than ${MOST_METADATA_PARTS} keys and items. Save them as an artifact of their own`,
    );
  }
  const parsed = ArtifactFacts.safeParse(given);
  if (!parsed.success) throw invalid(wordsOf(parsed.error));
  const bytes = Buffer.byteLength(JSON.stringify(parsed.data.metadata));
  if (bytes > MOST_METADATA_BYTES) {
    throw invalid(`its metadata takes ${bytes} bytes as JSON, and ${MOST_METADATA_BYTES} are allowed`);
  }
  return parsed.data;
}

/** No further than it matters: a schema would look at all of them first. */
function partsOf(value: unknown): number {
  const open = [value];
  let parts = 0;
  while (open.length > 0 && parts <= MOST_METADATA_PARTS) {
    const one = open.pop();
    if (typeof one !== 'object' || one === null || one instanceof Uint8Array) continue;
    const inner = Object.values(one);
    parts += inner.length;
    if (parts <= MOST_METADATA_PARTS) open.push(...inner);
  }
  return parts;
}

function wordsOf(error: z.ZodError): string {
  const path = error.issues[0]?.path ?? [];
  if (path[0] === 'metadata') return `its metadata must be a JSON object, and \`${path.join('.')}\` is none`;
  return z.prettifyError(error).split('\n').join(' ');
}

function invalid(reason: string): CellaError {
  return new CellaError('ARTIFACT_INVALID', `The artifact cannot be saved: ${reason}.`, { details: { reason } });
}
