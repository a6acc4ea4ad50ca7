/** MCP servers and HTTP endpoints, as code in a kernel calls them: the sandbox has no network, the host has. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { errorOf, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import type { Place } from './namespaces.ts';

const PROGRAM = join(import.meta.dirname, '../../support/namespaces/mcp-server.ts');
const SERVER = `
name: srv
type: mcp
runs_on: host
description: A server
command: ${process.execPath}
args: ${JSON.stringify([PROGRAM])}
`;

const NOTES = (port: number) => `
name: notes
type: http
description: Keeps notes
method: POST
url: http://127.0.0.1:${port}/notes/{id}
body: { text: '{text}' }
auth: { type: bearer, credential: notes_token }
parameters:
  id: { type: integer, required: true }
  text: { required: true }
`;

interface Notes extends AsyncDisposable {
  readonly port: number;
  readonly authorizations: (string | undefined)[];
}

/** Says again what it was sent; there is no note 404. */
async function serveNotes(): Promise<Notes> {
  const authorizations: Notes['authorizations'] = [];
  const server = createServer(async (request, response) => {
    const { authorization } = request.headers;
    authorizations.push(authorization);
    const body: Buffer[] = [];
    for await (const chunk of request) body.push(chunk);
    response.statusCode = request.url === '/notes/404' ? 404 : 200;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ url: request.url, body: JSON.parse(String(Buffer.concat(body))), authorization }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { port, authorizations, [Symbol.asyncDispose]: close };
}

export function namespaceServices(place: Place): void {
  describe('services in a kernel', () => {
    it('that are MCP servers return values, run concurrently, and restart after they died in a call', async () => {
      const { session, storage } = await openWith(place);
      await storage.tools.put('srv', SERVER);
      expect(await pyValue(session, 'tools.srv.add(a=2, b=3)')).toEqual({ sum: 5 });
      expect(await pyValue(session, 'import inspect; list(inspect.signature(tools.srv.add).parameters)')).toEqual([
        'a',
        'b',
      ]);
      expect(await pyValue(session, 'tools.srv.picture()[0]["data"]')).toEqual(new Uint8Array(Buffer.from('png')));
      const together = 'import asyncio; await asyncio.gather(*[tools.srv.meet.call_async(count=3) for _ in range(3)])';
      expect(await pyValue(session, together)).toEqual(['met', 'met', 'met']);
      expect(await errorOf(session, 'tools.srv.add(a="two")')).toMatchObject({ name: 'CellaValueError' });
      const died = await errorOf(session, 'await tools.srv.die()');
      expect(died).toMatchObject({ name: 'CellaRuntimeError', message: expect.stringContaining('a fatal mistake') });
      expect(await pyValue(session, 'await tools.srv.add(a=1)')).toEqual({ sum: 2 });
    });

    it('that are HTTP endpoints get the credential from the host; the code never does', async () => {
      await using notes = await serveNotes();
      const { session, storage } = await openWith(place, {
        credentials: async (name) => (name === 'notes_token' ? 's3cret' : undefined),
      });
      await storage.tools.put('notes', NOTES(notes.port));
      expect(await pyValue(session, 'await tools.notes(7, text="größe")')).toEqual({
        url: '/notes/7',
        body: { text: 'größe' },
        authorization: 'Bearer [credential]',
      });
      expect(notes.authorizations).toEqual(['Bearer s3cret']);
      const refused = await errorOf(session, 'tools.notes(404, text="x")');
      expect(refused).toMatchObject({ name: 'CellaRuntimeError', message: expect.stringContaining('404') });
      expect(refused.message).not.toContain('s3cret');
      expect(await errorOf(session, 'tools.notes("seven", text="x")')).toMatchObject({ name: 'CellaValueError' });
      const other = await openWith(place, { storage, agentKey: 'other' });
      expect(await errorOf(other.session, 'tools.notes(7, text="x")')).toMatchObject({ name: 'CellaPermissionError' });
      expect(notes.authorizations).toHaveLength(2);
    });
  });
}
