/** Stored requests with an Idempotency-Key and their results, so that a retry runs nothing twice. */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import { CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';
import { ExecutionResult } from '../../protocol/execution-events.ts';
import { ExecutionId } from '../../protocol/session-events.ts';
import { type EveryDocument, everyDocument } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { OutputFiles } from '../events/output-files.ts';
import { jsonBytes, jsonText } from '../json-pieces.ts';

const COLLECTION = 'idempotency';
/** These are over when somebody asks again, and the execution that they have ended is not. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set(['STORAGE_UNREACHABLE', 'SESSION_ELSEWHERE', 'SERVER_STOPPING']);
/** Larger results lie in a file. */
const MAX_INLINE_BYTES = 256 * 1024;

const ErrorCodes = z.custom<ErrorCode>((code) => typeof code === 'string' && Object.hasOwn(errorCodes, code));
const RecordedError = z.object({ code: ErrorCodes, message: z.string(), details: z.record(z.string(), z.unknown()) });

const IdempotencyRecord = z.object({
  execution: ExecutionId,
  /** Of what was asked for: the same key for something else is a mistake. */
  asked: z.string(),
  at: z.number(),
  firstSeq: z.number().optional(),
  outcome: z
    .union([z.object({ result: ExecutionResult }), z.object({ file: z.string() }), z.object({ error: RecordedError })])
    .optional(),
});
export type IdempotencyRecord = z.infer<typeof IdempotencyRecord>;

export interface IdempotencyLimits {
  readonly maxAgeMs: number;
  /** For each session. */
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

  /** Undefined where there was none, or it is too old to be known. */
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
    const passing = outcome instanceof CellaError && TRANSIENT.has(outcome.code);
    await this.put(name, { ...request, outcome: await this.#outcomeOf(passing ? lost(request, outcome) : outcome) });
  }

  /** What a finished one has come to; its error is thrown. */
  async result({ execution, outcome }: IdempotencyRecord): Promise<ExecutionResult | undefined> {
    if (!outcome) return undefined;
    if ('error' in outcome) {
      const { code, message, details } = outcome.error;
      throw new CellaError(code, message, { details });
    }
    if ('result' in outcome) return outcome.result;
    try {
      return ExecutionResult.parse(JSON.parse(await this.#outputs.readText(outcome.file)));
    } catch (cause) {
      const message = 'The code has ended, and its result is no longer kept here.';
      throw new CellaError('EXECUTION_LOST', message, { cause, details: { execution } });
    }
  }

  /** Forgets the old ones, and the oldest where there are too many. */
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
  return new CellaError('EXECUTION_LOST', `The code did not come to its end: ${message}`, {
    details: { execution, code },
  });
}

/** A key as it is stored: it may be any text, and is nobody else's business. */
export function idempotencyName(idempotencyKey: string): string {
  return fingerprint(idempotencyKey).slice(0, 32);
}

export function fingerprint(...parts: unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
