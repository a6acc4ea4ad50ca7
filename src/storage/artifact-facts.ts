/** The facts of an artifact, checked before they are stored. */

import { CellaError } from '../protocol/errors.ts';
import { ArtifactFacts, type ArtifactInfo } from '../protocol/namespace-models.ts';

export function checkFacts(name: string, facts: ArtifactFacts): ArtifactFacts {
  const parsed = ArtifactFacts.safeParse(facts);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new CellaError('ARTIFACT_INVALID', `Cannot store artifact ${JSON.stringify(name)}: ${problems.join('; ')}.`);
}

/** What a page of artifacts is measured by: characters of JSON. */
export const lengthOf = (info: ArtifactInfo): number => JSON.stringify(info).length;
