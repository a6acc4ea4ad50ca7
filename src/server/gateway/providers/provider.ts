/** What the gateway has to know about a provider: one object of this shape for each, in its own file. */

import type { ErrorCode } from '../../../protocol/errors.ts';
import type { Shape } from '../field-check.ts';

/** How an answer tells what it has used. `free`: it uses nothing that is counted. */
export type ApiFormat = 'messages' | 'responses' | 'chat' | 'gemini' | 'free';

/** The fields that an API has. */
export interface ApiFields {
  /** Undefined if a request has no body. */
  readonly request?: Shape;
  readonly answer: Shape;
  /** Of one event of a stream. */
  readonly event?: Shape;
}

/** A path that is let through. Its groups: `model`, and `action` if the path says whether the answer is a stream. */
export interface RouteRule {
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
  /** Where its API is, unless the operator names another address. */
  readonly address: string;
  readonly routes: readonly RouteRule[];
  /** Whether it takes the names of fields in another case, too. */
  readonly anyCase: boolean;
  /** The fields of the body of an error. */
  readonly errorFields: Shape;
  keyHeader(key: string): Record<string, string>;
  /** An error of the gateway, as the provider would write it. */
  errorBody(error: ProviderError): Record<string, unknown>;
  /** The same as the last event of a stream. */
  errorEvent(error: ProviderError): string;
}

export const MODEL = '[A-Za-z0-9][A-Za-z0-9._-]{0,127}';

export function routeRule(method: RouteRule['method'], path: string, format: ApiFormat, fields: ApiFields): RouteRule {
  return { method, path: new RegExp(`^${path}$`), format, fields };
}

/** Models: all, and one by its name. */
export function modelRoutes(base: string, all: Shape, one: Shape): RouteRule[] {
  return [
    routeRule('GET', base, 'free', { answer: all }),
    routeRule('GET', `${base}/(?<model>${MODEL})`, 'free', { answer: one }),
  ];
}
