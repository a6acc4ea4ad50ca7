/** What a tool of an MCP server gave, as a value for Python. */

import type { CallToolResult } from '@modelcontextprotocol/client';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { strike } from './credentials.ts';
import { parseJson } from './json.ts';
import type { McpTool } from './mcp-definition.ts';
import { cutNote, tail, wholeText } from './text.ts';

/** Structured content where there is some, else text; with images or sound in it, a list of parts. */
export async function mcpValue(
  callee: string,
  tool: McpTool,
  result: CallToolResult,
  secrets: readonly string[],
): Promise<PyValue> {
  if (result.isError === true) {
    const said = tail(strike(textOf(result), secrets)).trim();
    const message = `tools.${callee} failed.${said === '' ? '' : ` It said: ${said}`}`;
    throw new CellaError('TOOL_FAILED', message, { details: { tool: callee } });
  }
  if (result.structuredContent !== undefined) {
    const text = JSON.stringify(result.structuredContent);
    if (Buffer.byteLength(text) > tool.output_limit) throw tooLarge(callee, tool);
    return await parseJson(strike(text, secrets), `What tools.${callee} gave`);
  }
  if (result.content.every((part) => part.type === 'text'))
    return bounded(strike(textOf(result), secrets), tool.output_limit);
  if (Buffer.byteLength(JSON.stringify(result.content)) > tool.output_limit) throw tooLarge(callee, tool);
  return await Promise.all(result.content.map((part) => partValue(callee, part, secrets)));
}

function textOf({ content }: CallToolResult): string {
  return content.flatMap((part) => (part.type === 'text' ? part.text : [])).join('\n');
}

async function partValue(
  callee: string,
  part: CallToolResult['content'][number],
  secrets: readonly string[],
): Promise<PyValue> {
  if (part.type === 'image' || part.type === 'audio') {
    return { type: part.type, mimeType: part.mimeType, data: new Uint8Array(Buffer.from(part.data, 'base64')) };
  }
  return await parseJson(strike(JSON.stringify(part), secrets), `What tools.${callee} gave`);
}

function bounded(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return text;
  return wholeText(bytes.subarray(0, limit)) + cutNote(bytes.length - limit);
}

function tooLarge(callee: string, tool: McpTool): CellaError {
  return new CellaError(
    'TOOL_FAILED',
    `tools.${callee} gave more than the ${tool.output_limit} bytes of its \`output_limit\`.`,
  );
}
