/** The MCP server as one client sees it: its tools, its resources, and how to use them. */

import { McpServer } from '@modelcontextprotocol/server';
import type { Era } from './attend.ts';
import { offerArtifacts } from './offers/artifacts.ts';
import { offerDeps } from './offers/deps.ts';
import { offerResources } from './offers/resources.ts';
import { offerRunCode } from './offers/run-code.ts';
import { offerSkills } from './offers/skills.ts';
import { offerTools } from './offers/tools.ts';
import type { Shop } from './shop.ts';

const INSTRUCTIONS = `Cella runs Python in a kernel that keeps its state: use run_code for calculations, data and files, in small steps that build on each other. Look for a skill with search_skills before you write code for a common task, and keep what worked with create_skill. In code, tools, skills, artifacts and deps are there without an import.`;

export function makeServer(workshop: Shop, { era, version }: { era: Era; version: string }): McpServer {
  const server = new McpServer({ name: 'cella', title: 'Cella', version }, { instructions: INSTRUCTIONS });
  const bench = { server, workshop };
  offerRunCode(bench, era);
  offerTools(bench);
  offerSkills(bench);
  offerArtifacts(bench);
  offerResources(bench);
  offerDeps(bench);
  return server;
}
