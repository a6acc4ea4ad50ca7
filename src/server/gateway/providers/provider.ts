/**
 * The shape of a provider adapter, one file each: what the gateway knows about the provider's API, and how its responses
 * report used tokens.
 */

import { z } from 'zod';
import type { ErrorCode } from '../../../protocol/error-codes.ts';
import type { Shape } from '../field-check.ts';

/** How an answer reports its usage. `free`: it uses no tokens. */
export type ApiFormat = 'messages' | 'responses' | 'chat' | 'gemini' | 'free';

/** The fields of an API. */
export interface ApiFields {
  /** Undefined if a request has no body. */
  readonly request?: Shape;
  readonly answer: Shape;
  /** For one event of a stream. */
  readonly event?: Shape;
}

/** An allowed path. Its groups: `model`, and `action` if the path determines whether the answer is a stream. */
interface RouteRule {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
  readonly format: ApiFormat;
  readonly fields: ApiFields;
}

export interface ProviderError {
  readonly status: number;
  readonly code: ErrorCode;
  readonly message: string;
}

export interface ProviderAdapter {
  /** The default address of its API. */
  readonly address: string;
  readonly routes: readonly RouteRule[];
  /** Whether the provider also accepts field names in another case. */
  readonly anyCase: boolean;
  /** Headers that change the fields of the API, with the known values. Dates at the end of a value do not count. */
  readonly versionHeaders: Readonly<Record<string, RegExp>>;
  /** The fields of an error body. */
  readonly errorFields: Shape;
  keyHeader(key: string): Record<string, string>;
  /** A gateway error in the provider's format. */
  errorBody(error: ProviderError): Record<string, unknown>;
  /** Like `errorBody`, as the last event of a stream. */
  errorEvent(error: ProviderError): string;
}

export const MODEL = '[A-Za-z0-9][A-Za-z0-9._-]{0,127}';

export function routeRule(method: RouteRule['method'], path: string, format: ApiFormat, fields: ApiFields): RouteRule {
  return { method, path: new RegExp(`^${path}$`), format, fields };
}

/** Routes that list models and get one model. */
export function modelRoutes(base: string, all: Shape, one: Shape): RouteRule[] {
  return [
    routeRule('GET', base, 'free', { answer: all }),
    routeRule('GET', `${base}/(?<model>${MODEL})`, 'free', { answer: one }),
  ];
}

export interface TokenCounts {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/**
 * `final`: the counts so far cover the whole answer. `final-if-last`: they do if no other message follows. `unknown`: the
 * answer failed, and the provider does not report the usage until then.
 */
export type Finality = 'final' | 'final-if-last' | 'unknown';

/** A piece of the model's text. Clients join the pieces of one place, such as the field of a block. */
export interface TextPiece {
  readonly place: string;
  readonly text: string;
}

/** The texts that exist, each at its field of `where`. */
export function piecesAt(where: number | string | undefined, texts: Readonly<Record<string, string | undefined>>) {
  return Object.entries(texts).flatMap(([field, text]): TextPiece[] =>
    text === undefined || text === '' ? [] : [{ place: `${where ?? ''} ${field}`, text }],
  );
}

/** What one message of a stream reports, or a whole answer that is not a stream. Unknown parts are missing. */
interface UsageReport {
  readonly counts?: Partial<TokenCounts> | undefined;
  readonly model?: string | undefined;
  /** The model's text. Its length gives an estimate if the counts never arrive. */
  readonly texts?: readonly TextPiece[] | undefined;
  /** Set if this is the last message in the provider's format. */
  readonly last?: Finality | undefined;
}

export type ReadMessage = (message: unknown) => UsageReport | undefined;

/** Invalid counts are ignored. */
export const Count = z
  .int()
  .min(0)
  .max(1_000_000_000)
  .nullish()
  .catch(undefined)
  .transform((count) => count ?? undefined);

export const Text = z
  .string()
  .nullish()
  .catch(undefined)
  .transform((text) => text ?? undefined);

/** Where a piece of text belongs. */
export const Place = z
  .union([z.int(), z.string().max(200)])
  .optional()
  .catch(undefined);

/** The items that can be read. */
export const listOf = <T>(item: z.ZodType<T>) =>
  z
    .array(item.optional().catch(undefined))
    .nullish()
    .catch(undefined)
    .transform((items) => (items ?? []).filter((each) => each !== undefined));
