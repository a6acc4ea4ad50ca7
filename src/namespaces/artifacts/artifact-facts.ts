/** Checks the type, description and metadata of an artifact before it is saved. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { ArtifactFacts } from '../../protocol/namespace-models.ts';

const MOST_METADATA_BYTES = 64 * 1024;

/** Keys of objects and items of lists, at every depth. */
const MOST_METADATA_PARTS = 1000;

export function checkNewFacts(given: { readonly metadata?: unknown } & Record<string, unknown>): ArtifactFacts {
  if (countParts(given.metadata) > MOST_METADATA_PARTS) {
    throw invalidArtifact(
      `its metadata has more than ${MOST_METADATA_PARTS} keys and items. Save them as an artifact of their own`,
    );
  }
  const parsed = ArtifactFacts.safeParse(given);
  if (!parsed.success) throw invalidArtifact(describeIssue(parsed.error));
  const bytes = Buffer.byteLength(JSON.stringify(parsed.data.metadata));
  if (bytes > MOST_METADATA_BYTES) {
    throw invalidArtifact(`its metadata takes ${bytes} bytes as JSON, and ${MOST_METADATA_BYTES} are allowed`);
  }
  return parsed.data;
}

/** No further than it matters: a schema would look at all of them first. */
function countParts(value: unknown): number {
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

function describeIssue(error: z.ZodError): string {
  const path = error.issues[0]?.path ?? [];
  if (path[0] === 'metadata') return `its metadata must be a JSON object, and \`${path.join('.')}\` is none`;
  return z.prettifyError(error).split('\n').join(' ');
}

function invalidArtifact(reason: string): CellaError {
  return new CellaError('ARTIFACT_INVALID', `The artifact cannot be saved: ${reason}.`, { details: { reason } });
}
