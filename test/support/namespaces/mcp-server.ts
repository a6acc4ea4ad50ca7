/** An MCP server to call tools of: as a program over stdio, or made in this process for HTTP. */

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });

/** `folder` is where it notes the processes that it starts. */
export function testServer(folder = ''): McpServer {
  const server = new McpServer({ name: 'test', version: '1.0.0' });
  const sum = z.object({ sum: z.number() });
  const point = z.object({ x: z.number(), y: z.number() });
  server.registerTool(
    'add',
    {
      description: 'Adds two numbers.',
      inputSchema: z.object({ a: z.number().describe('The first.'), b: z.int().default(1) }),
      outputSchema: sum,
    },
    async ({ a, b }) => ({ ...said('no'), structuredContent: { sum: a + b } }),
  );
  server.registerTool('say-twice', { inputSchema: z.object({ text: z.string() }) }, async ({ text }) => ({
    content: [...said(text).content, ...said(text).content],
  }));
  server.registerTool('length', { inputSchema: z.object({ points: z.array(point) }) }, async ({ points }) =>
    said(String(points.length)),
  );
  server.registerTool('flood', { inputSchema: z.object({ size: z.int() }) }, async ({ size }) =>
    said('x'.repeat(size)),
  );
  server.registerTool('picture', {}, async () => ({
    content: [
      { type: 'image', mimeType: 'image/png', data: Buffer.from('png').toString('base64') },
      ...said('a picture').content,
    ],
  }));
  server.registerTool('grow', {}, async () => {
    server.registerTool('say.twice', { description: 'Another one.' }, async () => said('grown'));
    server.registerTool('grown', {}, async () => said('grown'));
    return said('it has grown');
  });
  server.registerTool('fail', {}, async () => ({ ...said('it is broken'), isError: true }));
  server.registerTool('pid', {}, async () => said(String(process.pid)));
  server.registerTool('env', {}, async () => said(JSON.stringify(process.env)));
  server.registerTool('die', {}, async () => {
    process.stderr.write('a fatal mistake\n', () => process.exit(3));
    return await new Promise<never>(() => undefined);
  });
  server.registerTool('hang', {}, async () => await new Promise<never>(() => undefined));
  server.registerTool('have-child', {}, async () => {
    // It holds the pipes of the server open.
    const child = spawn('sleep', ['1000'], { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
    writeFileSync(join(folder, 'child'), String(child.pid));
    return said(String(child.pid));
  });
  server.registerTool('meet', { inputSchema: z.object({ count: z.int() }) }, async ({ count }) => {
    const own = Promise.withResolvers<void>();
    waiting.push(own);
    if (waiting.length === count) for (const one of waiting.splice(0)) one.resolve();
    await own.promise;
    return said('met');
  });
  return server;
}

const waiting: PromiseWithResolvers<void>[] = [];

if (import.meta.main) serveStdio(() => testServer(process.argv[2]));
