/** Who may speak to the HTTP server: whoever has the token, from this machine, and no web page that was tricked here. */

import {
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
} from '@modelcontextprotocol/server';
import { isToken } from './token.ts';

export const PATH = '/mcp';

/** The answer to a request that goes no further. */
export function refusalOf(request: Request, token: string): Response | undefined {
  const tricked =
    hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
    originValidationResponse(request, localhostAllowedOrigins());
  if (tricked) return tricked;
  const [, offered = ''] = /^Bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (!isToken(offered, token)) {
    const headers = { 'www-authenticate': 'Bearer realm="cella"' };
    return Response.json(
      { error: 'A bearer token is needed; `cella mcp --help` tells where it is.' },
      { status: 401, headers },
    );
  }
  if (new URL(request.url).pathname === PATH) return undefined;
  return Response.json({ error: `The MCP endpoint is ${PATH}.` }, { status: 404 });
}
