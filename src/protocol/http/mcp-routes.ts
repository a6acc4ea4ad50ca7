/** A session as an MCP server: what the transport of MCP over HTTP needs. */

import { endpoint, mayUse } from './endpoint.ts';

const mcpTag = 'MCP';
const gives = ['application/json', 'text/event-stream'];

export const PostMcp = endpoint('post /v1/sessions/{id}/mcp', mcpTag, mayUse, {
  summary: 'A message of an MCP client (streamable HTTP)',
  audit: 'session.mcp',
  takes: 'application/json',
  gives,
});

export const GetMcp = endpoint('get /v1/sessions/{id}/mcp', mcpTag, mayUse, {
  summary: 'What the MCP server tells by itself',
  gives,
});

export const DeleteMcp = endpoint('delete /v1/sessions/{id}/mcp', mcpTag, mayUse, {
  summary: 'The end of a connection of an MCP client',
  whileStopping: true,
  gives,
});
