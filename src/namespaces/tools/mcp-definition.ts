/** The YAML of a tool that is an MCP server: each of its tools is called as `tools.NAME.TOOL(...)`. */

import { z } from 'zod';
import { commonFields, Environment, Seconds } from './fields.ts';
import { Auth, Headers, HttpUrl } from './http-fields.ts';

const Text = z.string().refine((text) => !text.includes('\0'), 'holds a NUL');

export const McpTool = z
  .strictObject({
    ...commonFields,
    type: z.literal('mcp'),
    /** Seconds that the server has to start and to list its tools. */
    start_timeout: Seconds.default(30),
    command: Text.min(1).optional(),
    args: z.array(Text).optional(),
    env: Environment.optional(),
    runs_on: z.literal('host', { error: 'an MCP server cannot run in the sandbox; say `runs_on: host`' }).optional(),
    url: HttpUrl.optional(),
    transport: z.enum(['streamable-http', 'sse']).default('streamable-http'),
    headers: Headers.default({}),
    auth: Auth.optional(),
  })
  .superRefine((tool, context) => {
    const fail = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    if ((tool.command === undefined) === (tool.url === undefined))
      fail([], 'an MCP server has either `command` or `url`');
    if (tool.command !== undefined) {
      if (tool.runs_on !== 'host')
        fail(['command'], 'a server that is a program runs outside of the sandbox; say `runs_on: host`');
      if (tool.auth !== undefined)
        fail(['auth'], '`auth` is for servers with a `url`; a program gets credentials by `env`');
      return;
    }
    if (tool.args !== undefined) fail(['args'], '`args` is for servers with a `command`');
    if (tool.env !== undefined) fail(['env'], '`env` is for servers with a `command`');
    if (tool.auth?.type === 'query') fail(['auth'], 'a credential in the query is only for `type: http`');
  });
export type McpTool = z.infer<typeof McpTool>;
