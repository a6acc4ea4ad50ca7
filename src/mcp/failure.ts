/** What could not be done, as a result that a model can act on. What nobody foresaw goes to the operator. */

import type { CallToolResult } from '@modelcontextprotocol/server';
import { CellaError } from '../protocol/errors.ts';

export type Log = (line: string) => void;

export function failureOf(error: unknown, log: Log): CallToolResult {
  if (error instanceof CellaError) {
    return {
      isError: true,
      content: [{ type: 'text', text: `${error.code}: ${error.message}\n${error.advice}` }],
      _meta: { 'cella/code': error.code },
    };
  }
  log(`unexpected error: ${error instanceof Error ? error.stack : String(error)}`);
  const text = 'UNEXPECTED: Cella failed to carry this out. The log of the server says why.';
  return { isError: true, content: [{ type: 'text', text }], _meta: { 'cella/code': 'UNEXPECTED' } };
}
