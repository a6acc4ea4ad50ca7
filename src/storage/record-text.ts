/** A session record as the text that a storage keeps. */

import { CellaError } from '../protocol/errors.ts';
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

/** Refused where it is none, so that every text in a storage can be read back. */
export function recordText(agentKey: string, record: SessionRecord): string {
  const text = JSON.stringify({ ...record, agentKey, history: boundHistory(record.history) });
  const parsed = parseRecord(text);
  if ('record' in parsed) return text;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot store this record of agent ${JSON.stringify(agentKey)}: ${parsed.reason}.`,
  );
}
