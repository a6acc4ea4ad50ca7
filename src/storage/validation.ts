/** Checks records, events, manifests, artifact facts and texts before a storage keeps them. */

import { CellaError } from '../protocol/errors.ts';
import { Manifest } from '../protocol/kernel-state.ts';
import { ArtifactFacts, type ArtifactInfo } from '../protocol/namespace-models.ts';
import { boundHistory, SessionRecord } from './session-record.ts';

export type ParsedRecord = { readonly record: SessionRecord } | { readonly reason: string };

export function parseRecord(text: string): ParsedRecord {
  try {
    const parsed = SessionRecord.safeParse(JSON.parse(text));
    if (parsed.success) return { record: parsed.data };
    return { reason: parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ') };
  } catch {
    return { reason: 'it is not JSON' };
  }
}

/** Fails if it is not a valid record, so that every stored text can be read back. */
export function recordText(agentKey: string, record: SessionRecord): string {
  const text = JSON.stringify({ ...record, agentKey, history: boundHistory(record.history) });
  const parsed = parseRecord(text);
  if ('record' in parsed) return text;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot store this record of agent ${JSON.stringify(agentKey)}: ${parsed.reason}.`,
  );
}

export function eventJson(event: unknown, index: number): string {
  let cause: unknown;
  try {
    const text = JSON.stringify(event);
    if (text !== undefined) return text;
  } catch (error) {
    cause = error;
  }
  throw new CellaError('STORAGE_FAILED', `Cannot store event ${index}: it cannot be written as JSON.`, { cause });
}

/** `written`: how many bytes came. */
export function checkManifest(manifest: Manifest, written: number): Manifest {
  const checked = checkShape(manifest);
  const listed = checked.segments.reduce((sum, { bytes }) => sum + bytes, 0);
  if (listed === written) return checked;
  const message = `Cannot store checkpoint ${checked.id}: its segments have ${listed} bytes, and ${written} were written.`;
  throw new CellaError('STORAGE_FAILED', message);
}

function checkShape(manifest: Manifest): Manifest {
  const parsed = Manifest.safeParse(manifest);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot store this checkpoint: its manifest is none (${problems.join('; ')}).`,
  );
}

export function checkStoredFacts(name: string, facts: ArtifactFacts): ArtifactFacts {
  const parsed = ArtifactFacts.safeParse(facts);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new CellaError('ARTIFACT_INVALID', `Cannot store artifact ${JSON.stringify(name)}: ${problems.join('; ')}.`);
}

/** What a page of artifacts is measured by: characters of JSON. */
export const jsonLength = (info: ArtifactInfo): number => JSON.stringify(info).length;

export const MOST_TEXT_BYTES = 1024 * 1024;

export function checkText(what: string, name: string, text: string): void {
  const refuse = (why: string) => {
    throw new CellaError('STORAGE_FAILED', `Cannot store the ${what} ${JSON.stringify(name)}: ${why}.`);
  };
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_TEXT_BYTES) refuse(`it has ${bytes} bytes, and at most ${MOST_TEXT_BYTES} may be`);
  if (!text.isWellFormed()) refuse('it holds a lone surrogate, which no file can hold');
}
