/** What a tool's YAML may say: a program, an MCP server or an HTTP endpoint. */

import { CliTool } from './cli-definition.ts';
import { HttpTool } from './http-definition.ts';
import { McpTool } from './mcp-definition.ts';

export type ToolDefinition = CliTool | McpTool | HttpTool;

/** By the field `type`; a tool without one is a program. */
export const toolSchemas = { cli: CliTool, mcp: McpTool, http: HttpTool } as const;
