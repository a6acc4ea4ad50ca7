/** What is said of an artifact, checked: kernels send it, and it is kept as JSON. */

import { z } from 'zod';
import { ArtifactFacts } from '../../protocol/artifact.ts';
import { CellaError } from '../../protocol/errors.ts';

const MOST_METADATA_BYTES = 64 * 1024;

export function checkFacts(given: unknown): ArtifactFacts {
  const parsed = ArtifactFacts.safeParse(given);
  if (!parsed.success) throw invalid(wordsOf(parsed.error));
  const bytes = Buffer.byteLength(JSON.stringify(parsed.data.metadata));
  if (bytes > MOST_METADATA_BYTES) {
    throw invalid(`its metadata takes ${bytes} bytes as JSON, and ${MOST_METADATA_BYTES} are allowed`);
  }
  return parsed.data;
}

function wordsOf(error: z.ZodError): string {
  const path = error.issues[0]?.path ?? [];
  if (path[0] === 'metadata') return `its metadata must be a JSON object, and \`${path.join('.')}\` is none`;
  return z.prettifyError(error).split('\n').join(' ');
}

function invalid(reason: string): CellaError {
  return new CellaError('ARTIFACT_INVALID', `The artifact cannot be saved: ${reason}.`, { details: { reason } });
}
