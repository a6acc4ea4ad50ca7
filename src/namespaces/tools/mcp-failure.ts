/** Failures of MCP servers in our words. */

import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import { CellaError } from '../../protocol/errors.ts';
import { strike } from './credentials.ts';
import type { McpTool } from './mcp-definition.ts';
import { stopped } from './stopped.ts';
import { tail } from './text.ts';

interface Said {
  readonly secrets: readonly string[];
  readonly lastWords: string;
}

/** The server could not be started or reached. */
export function openFailure(tool: McpTool, said: Said, error: unknown): CellaError {
  if (error instanceof CellaError) return error;
  const reason = describe(error, said);
  if (isTimeout(error)) {
    return new CellaError(
      'TOOL_TIMEOUT',
      `The MCP server ${tool.name} did not start within the ${tool.start_timeout} s of its \`start_timeout\`: ${reason}.`,
    );
  }
  return new CellaError('TOOL_FAILED', `The MCP server ${tool.name} could not be used: ${reason}.`);
}

export function callFailure(
  callee: string,
  tool: McpTool,
  said: Said,
  error: unknown,
  signal: AbortSignal,
): { readonly error: CellaError; readonly connectionLost: boolean } {
  const details = { details: { tool: callee } };
  if (signal.aborted) return { error: stopped(callee), connectionLost: false };
  if (isTimeout(error)) {
    const message = `tools.${callee} did not answer within ${tool.timeout} s.`;
    return { error: new CellaError('TOOL_TIMEOUT', message, details), connectionLost: false };
  }
  const message = `tools.${callee} failed: ${describe(error, said)}.`;
  return { error: new CellaError('TOOL_FAILED', message, details), connectionLost: !ProtocolError.isInstance(error) };
}

/** By the standard, 404 means that the session is not known any more and another must be begun. */
export function isLostSession(error: unknown): boolean {
  return SdkHttpError.isInstance(error) && error.data.status === 404;
}

function isTimeout(error: unknown): boolean {
  return SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout;
}

function describe(error: unknown, { secrets, lastWords }: Said): string {
  const gone = SdkError.isInstance(error) && error.code === SdkErrorCode.ConnectionClosed;
  const reason = gone ? 'the server ended' : error instanceof Error ? reasonOf(error) : String(error);
  const text = lastWords === '' ? reason : `${reason}. Its last words: ${lastWords}`;
  return tail(strike(text, secrets)).replace(/\.$/, '');
}

/** What `fetch` calls a failure is in its cause. */
function reasonOf({ message, cause }: Error): string {
  return cause instanceof Error && cause.message !== '' ? `${message} (${cause.message})` : message;
}
