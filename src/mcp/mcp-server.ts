/** The MCP server as one client sees it: its tools, its resources, and how to use them. */

import { McpServer } from '@modelcontextprotocol/server';
import type { McpBackend } from './mcp-backend.ts';
import type { ProtocolEra } from './run-code-call.ts';
import { registerArtifactResources, registerArtifacts } from './tools/artifact-tools.ts';
import { registerTools } from './tools/cella-tools.ts';
import { registerDeps } from './tools/package-tools.ts';
import { registerRunCode } from './tools/run-code.ts';
import { registerSkills } from './tools/skill-tools.ts';

const INSTRUCTIONS = `Cella runs Python in a kernel that keeps its state: use run_code for calculations, data and files, in small steps that build on each other. Look for a skill with search_skills before you write code for a common task, and keep what worked with create_skill. In code, tools, skills, artifacts and deps are there without an import.`;

export function createMcpServer(
  backend: McpBackend,
  { era, version }: { era: ProtocolEra; version: string },
): McpServer {
  const server = new McpServer({ name: 'cella', title: 'Cella', version }, { instructions: INSTRUCTIONS });
  const context = { server, backend };
  registerRunCode(context, era);
  registerTools(context);
  registerSkills(context);
  registerArtifacts(context);
  registerArtifactResources(context);
  registerDeps(context);
  return server;
}
