/** What every MCP tool is registered with, and the helpers that make its results. */

import type { CallToolResult, InputRequiredResult, McpServer, ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { cutMiddle, MAX_RESULT_CHARACTERS, toErrorResult } from '../execution-result.ts';
import type { McpBackend } from '../mcp-backend.ts';

export interface ToolContext {
  readonly server: McpServer;
  readonly backend: McpBackend;
}

/** Only reads, and only what Cella stores. */
export const READ_ONLY = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const;

export const AgentKeyArgument = z
  .string()
  .max(1024)
  .refine((key) => key.trim() !== '' && !key.includes('\0'), 'must be a name')
  .optional()
  .describe(
    'Which kernel to use: calls with the same key share their state. Omit it to use the kernel of this project.',
  );

export const SearchQuery = z.string().min(1).max(1000).describe('What you want to do, in plain words.');
export const Limit = z.int().min(1).max(50).default(5).describe('Maximum number of results.');

/** Of the entries of one list, as JSON. */
const MAX_LIST_CHARACTERS = 500_000;

/** The first entries, as many as one result has room for. */
export function firstEntries<T>(entries: Iterable<T>): T[] {
  const shown: T[] = [];
  let room = MAX_LIST_CHARACTERS;
  for (const entry of entries) {
    room -= JSON.stringify(entry).length;
    if (room < 0) break;
    shown.push(entry);
  }
  return shown;
}

/** A list as lines for a model and as data for a program. */
export function listResult(lines: readonly string[], empty: string, data: Record<string, unknown>): CallToolResult {
  const text = cutMiddle(lines.length === 0 ? empty : lines.join('\n'), MAX_RESULT_CHARACTERS);
  return textResult(text, { structuredContent: data });
}

export function textResult(text: string, more: Partial<CallToolResult> = {}): CallToolResult {
  return { ...more, content: [{ type: 'text', text }] };
}

/** The user of the server who makes the call, if there are users. */
export function callerOf({ http }: ServerContext): string | undefined {
  return http?.authInfo?.clientId;
}

export async function asToolResult<T extends CallToolResult | InputRequiredResult>(
  { limits, options }: Pick<McpBackend, 'limits' | 'options'>,
  context: ServerContext,
  work: () => Promise<T>,
): Promise<T | CallToolResult> {
  try {
    using _call = limits.begin(callerOf(context));
    return await work();
  } catch (error) {
    return toErrorResult(error, options.log);
  }
}

/** The first lines of a description, for lists. */
export function truncateDescription(text: string, most = 300): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return (line.length > most ? `${line.slice(0, most - 1)}…` : line).toWellFormed();
}
