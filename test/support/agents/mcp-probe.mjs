/** A tiny MCP server over stdio without packages: one tool that echoes, and says which variables it has. */

import { createInterface } from 'node:readline';

const schema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };
const tools = [{ name: 'echo', description: 'Echoes a text', inputSchema: schema }];

function answer({ method, params }) {
  if (method === 'initialize') {
    const { protocolVersion } = params;
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'probe', version: '1.0.0' } };
  }
  if (method === 'tools/list') return { tools };
  if (method === 'tools/call') {
    return { content: [{ type: 'text', text: `echo: ${params.arguments.text} ${process.env.PROBE_WORD ?? ''}` }] };
  }
  return {};
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined) continue;
  console.log(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: answer(message) }));
}
