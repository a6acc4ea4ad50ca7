/** Checks records, events, manifests, artifact facts and texts before a storage keeps them, and names folders after keys. */

import { hash } from 'node:crypto';
import { z } from 'zod';
import { inSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import { Manifest, Segment } from '../protocol/kernel-state.ts';
import { ArtifactFacts, type ArtifactInfo } from '../protocol/namespace-models.ts';
import { describeProblems, firstProblem } from '../protocol/parse.ts';
import type { CheckpointSummary, DamagedRecord, ListRecords } from './contract.ts';
import { boundHistory, SessionRecord } from './session-record.ts';

type ParsedRecord = { readonly record: SessionRecord } | { readonly reason: string };

export function parseRecord(text: string): ParsedRecord {
  try {
    const parsed = SessionRecord.safeParse(JSON.parse(text));
    if (parsed.success) return { record: parsed.data };
    return { reason: describeProblems(parsed.error).join('; ') };
  } catch {
    return { reason: 'it is not JSON' };
  }
}

export function readRecord(text: string, agentKey: string, where: string, details: object = {}): SessionRecord {
  const parsed = parseRecord(text);
  if ('record' in parsed) return parsed.record;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot read the record of agent key ${JSON.stringify(agentKey)} in ${where}: ${parsed.reason}. ` +
      'Use the version of Cella that wrote it, or delete the key and its data.',
    { details: { agentKey, ...details } },
  );
}

export interface FoundRecord {
  readonly agentKey: string;
  readonly parsed: ParsedRecord;
}

/** The lists of a record store, made from one pass over its records. */
export abstract class RecordLists {
  protected abstract all(which?: ListRecords['which']): AsyncIterable<FoundRecord>;

  async *list({ which }: ListRecords = {}): AsyncGenerator<SessionRecord> {
    for await (const { parsed } of this.all(which)) if ('record' in parsed) yield parsed.record;
  }

  async damaged(): Promise<DamagedRecord[]> {
    const damaged: DamagedRecord[] = [];
    for await (const { agentKey, parsed } of this.all()) {
      if ('reason' in parsed) damaged.push({ agentKey, reason: parsed.reason });
    }
    return damaged;
  }
}

/** Fails if it is not a valid record, so that every stored text can be read back. */
export function recordText(agentKey: string, record: SessionRecord): string {
  const text = JSON.stringify({ ...record, agentKey, history: boundHistory(record.history) });
  const parsed = parseRecord(text);
  if ('record' in parsed) return text;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot store this record of agent key ${JSON.stringify(agentKey)}: ${parsed.reason}.`,
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

/** `written`: the number of bytes written. */
export function checkManifest(manifest: Manifest, written: number): Manifest {
  const checked = checkShape(manifest);
  const { table, segments } = checked;
  const listed = table ? checked.bytes + table.bytes : segments.reduce((sum, { bytes }) => sum + bytes, 0);
  if (listed === written) return checked;
  const message = `Cannot store checkpoint ${checked.id}: its segments have ${listed} bytes, but ${written} were written.`;
  throw new CellaError('STORAGE_FAILED', message);
}

const ListedSegments = Manifest.extend({ segments: z.array(z.unknown()) });

type ParsedManifest = { readonly manifest: Manifest } | { readonly reason: string };

/** Checks segments in slices: earlier versions stored manifests with tens of thousands of them. */
export async function parseManifest(content: unknown): Promise<ParsedManifest> {
  const parsed = ListedSegments.safeParse(content);
  if (!parsed.success) return { reason: firstProblem(parsed.error) };
  const segments: Segment[] = [];
  for await (const listed of inSlices(parsed.data.segments)) {
    const segment = Segment.safeParse(listed);
    if (!segment.success) return { reason: firstProblem(segment.error) };
    segments.push(segment.data);
  }
  return { manifest: { ...parsed.data, segments } };
}

export function summaryOf({ id, name, kind, createdAt }: Manifest): CheckpointSummary {
  return { id, name, kind, createdAt };
}

function checkShape(manifest: Manifest): Manifest {
  const parsed = Manifest.safeParse(manifest);
  if (parsed.success) return parsed.data;
  const problems = describeProblems(parsed.error).join('; ');
  throw new CellaError('STORAGE_FAILED', `Cannot store this checkpoint: its manifest is invalid (${problems}).`);
}

export function checkStoredFacts(name: string, facts: ArtifactFacts): ArtifactFacts {
  const parsed = ArtifactFacts.safeParse(facts);
  if (parsed.success) return parsed.data;
  const problems = describeProblems(parsed.error).join('; ');
  throw new CellaError('ARTIFACT_INVALID', `Cannot store artifact ${JSON.stringify(name)}: ${problems}.`);
}

/** The size of an artifact's metadata in a page, in characters of JSON. */
export const jsonLength = (info: ArtifactInfo): number => JSON.stringify(info).length;

export const MOST_TEXT_BYTES = 1024 * 1024;

export function checkText(what: string, name: string, text: string): void {
  const refuse = (why: string) => {
    throw new CellaError('STORAGE_FAILED', `Cannot store the ${what} ${JSON.stringify(name)}: ${why}.`);
  };
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_TEXT_BYTES) refuse(`it has ${bytes} bytes; the limit is ${MOST_TEXT_BYTES}`);
  if (!text.isWellFormed()) refuse('it contains a lone surrogate, which a file cannot store');
}

/** Readable if the key is, and always unique: two keys never share a folder. */
export function folderName(agentKey: string): string {
  const readable = agentKey
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  const digest = hash('sha256', Buffer.from(agentKey, 'utf16le')).slice(0, 16);
  return readable ? `${readable}-${digest}` : digest;
}
