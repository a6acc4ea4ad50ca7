/**
 * Requests with an Idempotency-Key: running ones in memory, finished ones in storage with their results. A retry runs nothing
 * twice.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import { parseOwnJson } from '../../lib/own-json.ts';
import { type ErrorCode, isErrorCode } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { ExecutionResult } from '../../protocol/execution-events.ts';
import { jsonBytes, jsonText } from '../../protocol/json-pieces.ts';
import { ExecutionId } from '../../protocol/session-events.ts';
import { TurnId } from '../../protocol/turn.ts';
import { type EveryDocument, everyDocument } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { OutputFiles } from '../events/output-files.ts';

const COLLECTION = 'idempotency';
/** A retry can succeed after these errors, but the execution that they ended is lost. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set(['STORAGE_UNREACHABLE', 'SESSION_ELSEWHERE', 'SERVER_STOPPING']);
/** Larger results are stored in a file. */
const MAX_INLINE_BYTES = 256 * 1024;

const RecordedError = z.object({
  code: z.custom<ErrorCode>(isErrorCode),
  message: z.string(),
  details: z.record(z.string(), z.unknown()),
});

const IdempotencyRecord = z.object({
  /** What the request runs: an execution, or a turn, whose result is in its own record. */
  execution: ExecutionId.optional(),
  turn: TurnId.optional(),
  /** The fingerprint of the request. */
  asked: z.string(),
  at: z.number(),
  firstSeq: z.number().optional(),
  outcome: z
    .union([z.object({ result: ExecutionResult }), z.object({ file: z.string() }), z.object({ error: RecordedError })])
    .optional(),
});
export type IdempotencyRecord = z.infer<typeof IdempotencyRecord>;

interface IdempotencyLimits {
  readonly maxAgeMs: number;
  /** Per session. */
  readonly maxCount: number;
}

export class IdempotencyStore {
  readonly #documents: DocumentStore;
  readonly #outputs: OutputFiles;
  readonly #sessionId: string;
  readonly #limits: IdempotencyLimits;

  constructor(documents: DocumentStore, outputs: OutputFiles, sessionId: string, limits: IdempotencyLimits) {
    this.#documents = documents;
    this.#outputs = outputs;
    this.#sessionId = sessionId;
    this.#limits = limits;
  }

  /** Undefined if there is none, or it has expired. */
  async get(name: string): Promise<IdempotencyRecord | undefined> {
    const document = await this.#documents.get(COLLECTION, this.#id(name));
    const request = IdempotencyRecord.safeParse(document?.value);
    const known = request.success && Date.now() - request.data.at < this.#limits.maxAgeMs;
    return known ? request.data : undefined;
  }

  async put(name: string, request: IdempotencyRecord): Promise<void> {
    await this.#documents.put(COLLECTION, this.#id(name), request);
  }

  async finish(name: string, request: IdempotencyRecord, outcome: ExecutionResult | CellaError): Promise<void> {
    const transient = outcome instanceof CellaError && TRANSIENT.has(outcome.code);
    await this.put(name, { ...request, outcome: await this.#outcomeOf(transient ? lost(request, outcome) : outcome) });
  }

  /** The result of a finished execution. Throws its error. */
  async result({ execution, outcome }: IdempotencyRecord): Promise<ExecutionResult> {
    if (!outcome) throw new CellaError('EXECUTION_LOST', 'The code has not ended.', { details: { execution } });
    if ('error' in outcome) {
      const { code, message, details } = outcome.error;
      throw new CellaError(code, message, { details });
    }
    if ('result' in outcome) return outcome.result;
    try {
      return ExecutionResult.parse(await parseOwnJson(await this.#outputs.readBytes(outcome.file)));
    } catch (cause) {
      const message = 'The code has ended, and its result has been removed.';
      throw new CellaError('EXECUTION_LOST', message, { cause, details: { execution } });
    }
  }

  /** Deletes expired records, and the oldest if there are too many. */
  async trim(): Promise<void> {
    const kept: { readonly id: string; readonly at: number }[] = [];
    for await (const { id, value } of this.#all()) {
      const request = IdempotencyRecord.safeParse(value);
      kept.push({ id, at: request.success ? request.data.at : 0 });
    }
    const newest = kept.toSorted((one, other) => other.at - one.at);
    for (const [index, { id, at }] of newest.entries()) {
      const old = Date.now() - at >= this.#limits.maxAgeMs || index >= this.#limits.maxCount;
      if (old) await this.#documents.delete(COLLECTION, id);
    }
  }

  async remove(): Promise<void> {
    for await (const { id } of this.#all()) await this.#documents.delete(COLLECTION, id);
  }

  #all(): AsyncGenerator<EveryDocument> {
    return everyDocument(this.#documents, COLLECTION, { prefix: this.#id('') });
  }

  async #outcomeOf(outcome: ExecutionResult | CellaError): Promise<IdempotencyRecord['outcome']> {
    if (outcome instanceof CellaError) {
      const { code, message, details } = outcome.toJSON();
      return { error: { code, message, details: { ...details } } };
    }
    const text = await jsonText(outcome);
    if (jsonBytes(text) <= MAX_INLINE_BYTES)
      return { result: typeof text === 'string' ? outcome : JSON.parse(String(Buffer.concat([...text]))) };
    return { file: (await this.#outputs.keep('json', text)).file };
  }

  #id(name: string): string {
    return `${this.#sessionId}/${name}`;
  }
}

function lost({ execution }: IdempotencyRecord, { code, message }: CellaError): CellaError {
  return new CellaError('EXECUTION_LOST', `The code did not finish: ${message}`, {
    details: { execution, code },
  });
}

/** How one kind of request is run or replayed. */
interface IdempotentWork<Live, Ended> {
  /** Identifies the request: the same key with another fingerprint is a conflict. */
  readonly fingerprint: string;
  /** Returns the result of the recorded request. Undefined if it never started, so that it starts now. */
  readonly replay: (record: IdempotencyRecord) => Promise<Ended | undefined>;
  /** Puts the record into the store under this name, and starts. */
  readonly start: (name: string) => Promise<Live>;
  /** Settles when a retry finds the result in the store. */
  readonly ended: (live: Live) => Promise<unknown>;
}

/** A running request, or the result of a finished one. `replayed`: an earlier request with the same key started it. */
type Submitted<Live, Ended> =
  | { readonly live: Live; readonly replayed: boolean }
  | { readonly ended: Ended; readonly replayed: true };

/** The requests of one kind in one session. A retry joins the running request, or gets its result. */
export class IdempotentRequests<Live, Ended> {
  readonly #store: IdempotencyStore;
  readonly #kind: 'execute' | 'prompt';
  readonly #running = new Map<
    string,
    { readonly fingerprint: string; readonly submitted: Promise<Submitted<Live, Ended>> }
  >();

  constructor(store: IdempotencyStore, kind: 'execute' | 'prompt') {
    this.#store = store;
    this.#kind = kind;
  }

  /** Synchronous up to the registration: of two requests with one key, the second joins the first. */
  async submit(key: string, work: IdempotentWork<Live, Ended>): Promise<Submitted<Live, Ended>> {
    const name = this.#nameOf(key);
    const running = this.#running.get(name);
    if (running) {
      if (running.fingerprint !== work.fingerprint) throw conflict();
      return { ...(await running.submitted), replayed: true };
    }
    const submitted = this.#submit(name, work);
    this.#running.set(name, { fingerprint: work.fingerprint, submitted });
    const forget = () => this.#running.delete(name);
    const whenOver = (one: Submitted<Live, Ended>) => ('live' in one ? work.ended(one.live).finally(forget) : forget());
    submitted.then(whenOver).catch(forget);
    return await submitted;
  }

  /** The running or waiting request with this key. */
  async find(key: string): Promise<Live | undefined> {
    const submitted = await this.#running.get(this.#nameOf(key))?.submitted;
    return submitted && 'live' in submitted ? submitted.live : undefined;
  }

  async #submit(name: string, work: IdempotentWork<Live, Ended>): Promise<Submitted<Live, Ended>> {
    const record = await this.#store.get(name);
    if (record && record.asked !== work.fingerprint) throw conflict();
    const ended = record && (await work.replay(record));
    return ended === undefined ? { live: await work.start(name), replayed: false } : { ended, replayed: true };
  }

  /** A key may be any text, and is stored as a digest. One key may serve an execution and a prompt. */
  #nameOf(key: string): string {
    return (this.#kind === 'execute' ? fingerprint(key) : fingerprint(this.#kind, key)).slice(0, 32);
  }
}

function conflict(): CellaError {
  return new CellaError('IDEMPOTENCY_CONFLICT', 'This Idempotency-Key was used for another request.');
}

/** A digest of these values. Stored documents are found by it: it must stay the same. */
export function fingerprint(...parts: unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
