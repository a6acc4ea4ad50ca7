import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import {
  createMcpHandler,
  type JSONRPCMessage,
  type Transport,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { testServer } from '../../../test/support/namespaces/mcp-server.ts';
import { temporaryFolder, testTools } from '../../../test/support/namespaces/tools.ts';
import { readProcessStat } from '../../lib/process-identity.ts';

/** Programs take their time to start on a busy machine. */
const patient = { timeout: 60_000 };
const program = join(import.meta.dirname, '../../../test/support/namespaces/mcp-server.ts');

const stdio = (more = '', args: string[] = []) =>
  `name: srv\ntype: mcp\nruns_on: host\ndescription: A server.\ncommand: ${process.execPath}\nargs: ${JSON.stringify([program, ...args])}\ntimeout: 20\n${more}`;

function runs(pid: number): boolean {
  return readProcessStat(pid)?.hasEnded === false;
}

async function until(happens: () => boolean): Promise<void> {
  while (!happens()) await new Promise((resolve) => setTimeout(resolve, 5));
}

interface HttpServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: { readonly method: string; readonly authorization: string | null }[];
}

type Handler = (request: Request, response: ServerResponse) => Promise<Response | undefined>;

async function serve(handle: Handler): Promise<HttpServer> {
  const requests: HttpServer['requests'] = [];
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const { method = 'GET', url = '/' } = incoming;
    const headers = new Headers(
      Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
        values.map((value): [string, string] => [name, value]),
      ),
    );
    requests.push({ method, authorization: headers.get('authorization') });
    const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
    const answer = await handle(new Request(`http://127.0.0.1${url}`, { method, headers, ...body }), response);
    if (answer === undefined) return;
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/mcp`, requests, [Symbol.asyncDispose]: close };
}

const current = async (): Promise<HttpServer> => {
  const handler = createMcpHandler(() => testServer());
  return await serve(async (request) => await handler.fetch(request));
};

/** As servers were before 2026: with sessions that a restart forgets. */
const sessions = async (): Promise<HttpServer & { forget(): void }> => {
  const known = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const server = await serve(async (request) => {
    const id = request.headers.get('mcp-session-id');
    const before = id === null ? undefined : known.get(id);
    if (before !== undefined) return await before.handleRequest(request);
    if (id !== null) return new Response('no such session', { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (name) => void known.set(name, transport),
    });
    await testServer().connect(transport);
    return await transport.handleRequest(request);
  });
  return Object.assign(server, { forget: () => known.clear() });
};

/** The older transport: one stream of events for the answers, and a POST for each message. */
const sse = async (): Promise<HttpServer> => {
  const channels = new Map<string, Transport & { receive(message: JSONRPCMessage): void }>();
  return await serve(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url);
    if (request.method === 'POST') {
      channels.get(searchParams.get('id') ?? '')?.receive(JSON.parse(await request.text()));
      return new Response(null, { status: 202 });
    }
    const id = crypto.randomUUID();
    const transport: Transport & { receive(message: JSONRPCMessage): void } = {
      start: async () => undefined,
      close: async () => void response.end(),
      send: async (message) => void response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`),
      receive: (message) => transport.onmessage?.(message),
    };
    channels.set(id, transport);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    await testServer().connect(transport);
    response.write(`event: endpoint\ndata: ${pathname}?id=${id}\n\n`);
    return undefined;
  });
};

const kinds: [string, () => Promise<AsyncDisposable & { yaml: string }>][] = [
  ['stdio', async () => ({ yaml: stdio(), [Symbol.asyncDispose]: async () => undefined })],
  ...(
    [
      ['streamable HTTP', current, ''],
      ['streamable HTTP with sessions', sessions, ''],
      ['SSE', sse, 'transport: sse'],
    ] as const
  ).map(([name, open, more]): [string, () => Promise<AsyncDisposable & { yaml: string }>] => [
    name,
    async () => {
      const server = await open();
      const yaml = `name: srv\ntype: mcp\nurl: ${server.url}\ntimeout: 20\n${more}\n`;
      return { yaml, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
  ]),
];

/** It takes the connection, and never says where to ask. */
const silent = async (): Promise<HttpServer> =>
  await serve(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': nothing\n\n');
    return undefined;
  });

describe.concurrent('an MCP server over SSE that never sends its address', patient, () => {
  it('has its start_timeout', async () => {
    await using server = await silent();
    const yaml = `name: srv\ntype: mcp\nurl: ${server.url}\ntransport: sse\nstart_timeout: 1\n`;
    await using tools = await testTools([yaml]);
    await expect(tools.call('srv.add', { a: 1 })).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' });
  });

  it('does not delay the end of the session', async () => {
    await using server = await silent();
    const yaml = `name: srv\ntype: mcp\nurl: ${server.url}\ntransport: sse\nstart_timeout: 25\n`;
    const tools = await testTools([yaml]);
    const call = tools.call('srv.add', { a: 1 });
    call.catch(() => {}); // nobody waits for it
    const began = performance.now();
    await tools[Symbol.asyncDispose]();
    expect(performance.now() - began).toBeLessThan(15_000);
  });
});

// At once: each of them waits for a timeout.
describe.concurrent.each(kinds)('an MCP server over %s', patient, (_name, open) => {
  it('lists its tools with their arguments, and calls work', async () => {
    await using server = await open();
    await using tools = await testTools([server.yaml]);
    const info = await tools.tools.describe('srv');
    expect(info).toMatchObject({ name: 'srv', kind: 'mcp', runs_on: 'host', parameters: [] });
    expect(info.recipes.map(({ name }) => name)).toEqual(expect.arrayContaining(['add', 'say_twice', 'picture']));
    expect(info.recipes.find(({ name }) => name === 'add')).toEqual({
      name: 'add',
      description: 'Adds two numbers.',
      parameters: [
        { name: 'a', type: 'number', description: 'The first.', required: true, positional: true, variadic: false },
        {
          name: 'b',
          type: 'integer',
          description: '',
          default: 1,
          required: false,
          positional: false,
          variadic: false,
        },
      ],
    });
    expect(await tools.call('srv.add', { b: 2 }, { positional: [1.5] })).toEqual({ sum: 3.5 });
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
    expect(await tools.call('srv.say_twice', { text: 'hi' })).toBe('hi\nhi');
    expect(await tools.call('srv.say-twice', { text: 'hi' })).toBe('hi\nhi');
    expect(await tools.call('srv.picture')).toEqual([
      { type: 'image', mimeType: 'image/png', data: new Uint8Array(Buffer.from('png')) },
      { type: 'text', text: 'a picture' },
    ]);
    expect((await tools.tools.search('adds numbers')).map(({ name }) => name)).toEqual(['srv']);
  });

  it('gets only arguments that fit its schema', async () => {
    await using server = await open();
    await using tools = await testTools([server.yaml]);
    const refused = (message: RegExp) => ({ code: 'TOOL_ARGUMENTS', message: expect.stringMatching(message) });
    await expect(tools.call('srv.add', { a: 'x' })).rejects.toMatchObject(refused(/wrong a: it must be a number/));
    await expect(tools.call('srv.add', { a: 1, c: 2 })).rejects.toMatchObject(
      refused(/no argument "c"\. It takes a, b\./),
    );
    await expect(tools.call('srv.add')).rejects.toMatchObject(refused(/needs a/));
    await expect(tools.call('srv.length', { points: [{ x: 1 }] })).rejects.toMatchObject(refused(/wrong arguments/));
    await expect(tools.call('srv.add', { a: 2n ** 70n })).rejects.toMatchObject(refused(/more than 53 bits/));
    await expect(tools.call('srv')).rejects.toMatchObject(
      refused(/is an MCP server: call one of its tools\. It has add/),
    );
    await expect(tools.call('srv.nothing')).rejects.toMatchObject({
      code: 'TOOL_NOT_FOUND',
      message: expect.stringContaining('It has add'),
    });
  });

  it('reports its tool’s message on failure, and what was truncated', async () => {
    await using server = await open();
    await using tools = await testTools([`${server.yaml}output_limit: 100\n`]);
    await expect(tools.call('srv.fail')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: 'tools.srv.fail failed. It said: it is broken',
    });
    expect(await tools.call('srv.flood', { size: 150 })).toBe(
      `${'x'.repeat(100)}\n[50 more bytes are missing: the tool wrote more than its output_limit]`,
    );
  });

  it('is given up at the timeout, and if the code no longer waits, and keeps working', async () => {
    await using server = await open();
    await using tools = await testTools([server.yaml.replace('timeout: 20', 'timeout: 3')]);
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
    const timedOut = expect(tools.call('srv.hang')).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' });
    const stop = new AbortController();
    const stopped = expect(tools.call('srv.hang', {}, { context: { signal: stop.signal } })).rejects.toMatchObject({
      code: 'ABORTED',
    });
    stop.abort();
    await stopped;
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
    await timedOut;
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
  });

  it('handles concurrent calls concurrently', async () => {
    await using server = await open();
    await using tools = await testTools([server.yaml]);
    const calls = Array.from({ length: 8 }, () => tools.call('srv.meet', { count: 8 }));
    expect(await Promise.all(calls)).toEqual(Array(8).fill('met'));
  });
});

describe('an MCP server that is a program', patient, () => {
  it('is started once, when it is first needed, and ended at the end', async () => {
    const tools = await testTools([stdio()]);
    const pids = await Promise.all([tools.call('srv.pid'), tools.call('srv.pid'), tools.call('srv.pid')]);
    expect(new Set(pids).size).toBe(1);
    expect(await tools.call('srv.pid')).toBe(pids[0]);
    await tools.tools.close();
    await tools.tools.close();
    expect(runs(Number(pids[0]))).toBe(false);
    await expect(tools.call('srv.pid')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  });

  it('that dies during a call fails that call with its last output, and is restarted by the next', async () => {
    await using tools = await testTools([stdio()]);
    const before = await tools.call('srv.pid');
    const hanging = expect(tools.call('srv.hang')).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    await expect(tools.call('srv.die')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: 'tools.srv.die failed: the server ended. Its last words: a fatal mistake.',
    });
    await hanging;
    const after = await tools.call('srv.pid');
    expect(after).not.toBe(before);
  });

  it('can add tools while it runs, also with names that are the same in Python', async () => {
    await using tools = await testTools([stdio()]);
    await expect(tools.call('srv.grown')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    await tools.call('srv.grow');
    const names = async () => (await tools.tools.describe('srv')).recipes.map(({ name }) => name);
    while (!(await names()).includes('grown')) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await tools.call('srv.grown')).toBe('grown');
    expect(await tools.call('srv.say_twice', { text: 'x' })).toBe('x\nx');
    expect(await names()).toEqual(expect.arrayContaining(['say_twice', 'say.twice']));
  });

  it('that was killed between calls is started again', async () => {
    await using tools = await testTools([stdio()]);
    const before = Number(await tools.call('srv.pid'));
    process.kill(before, 'SIGKILL');
    await until(() => !runs(before));
    // The death may reach us after the call has been sent, which then fails and says so.
    const first = await tools.call('srv.pid').catch((error: unknown) => error);
    if (typeof first !== 'string') expect(first).toMatchObject({ code: 'TOOL_FAILED' });
    expect(Number(await tools.call('srv.pid'))).not.toBe(before);
  });

  it('ends with everything that it has started, even processes that hold its pipes', async () => {
    using folder = temporaryFolder();
    const tools = await testTools([stdio('', [folder.path])]);
    const child = Number(await tools.call('srv.have_child'));
    expect(runs(child)).toBe(true);
    await tools.tools.close();
    await until(() => !runs(child));

    await using others = await testTools([stdio('', [folder.path])]);
    const second = Number(await others.call('srv.have_child'));
    await expect(others.call('srv.die')).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    await until(() => !runs(second));
  });

  it('sees a small environment with its credentials, which are removed from output', async () => {
    process.env.CELLA_TEST_SECRET = 'visible';
    const credentials = async (name: string) => (name === 'token' ? 's3cret"x' : undefined);
    await using tools = await testTools([stdio('env: {TOKEN: {credential: token}, MODE: plain}')], { credentials });
    const env = JSON.parse(String(await tools.call('srv.env')));
    delete process.env.CELLA_TEST_SECRET;
    expect(Object.keys(env).sort()).toEqual(['CELLA_COMMAND', 'HOME', 'LANG', 'MODE', 'PATH', 'TOKEN']);
    expect(env.TOKEN).toBe('[credential]');
  });

  it.each([
    [
      'is missing',
      stdio().replace(process.execPath, 'no-such-server'),
      'TOOL_FAILED',
      /"no-such-server" could not be started/,
    ],
    [
      'ends at once',
      'name: srv\ntype: mcp\nruns_on: host\ncommand: sh\nargs: [-c, "echo no config >&2; exit 1"]\n',
      'TOOL_FAILED',
      /the server ended.*no config/,
    ],
    [
      'never answers',
      'name: srv\ntype: mcp\nruns_on: host\ncommand: sleep\nargs: ["1000"]\nstart_timeout: 0.3\n',
      'TOOL_TIMEOUT',
      /did not start within the 0.3 s of its `start_timeout`/,
    ],
    [
      'says something else',
      'name: srv\ntype: mcp\nruns_on: host\ncommand: yes\n',
      'TOOL_FAILED',
      /the server ended. Its last words: it wrote lines to stdout that are not messages: "y"/,
    ],
    [
      'says too much',
      'name: srv\ntype: mcp\nruns_on: host\ncommand: cat\nargs: [/dev/zero]\n',
      'TOOL_FAILED',
      /it sent a message of more than 4 MB/,
    ],
    ['lacks a credential', stdio('env: {A: {credential: missing}}'), 'CREDENTIAL_MISSING', /missing/],
  ])('and %s is told, and hides no other tool', async (_name, yaml, code, message) => {
    await using tools = await testTools([yaml, 'name: good\ncommand: echo fine\n']);
    await expect(tools.call('srv.pid')).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
    const infos = await tools.tools.list();
    expect(infos.map(({ name }) => name)).toEqual(['good', 'srv']);
    expect(infos[1]?.description).toMatch(message);
  });

  it('that did not start does not delay lists, and is tried again by each call', async () => {
    using folder = temporaryFolder();
    const note = join(folder.path, 'starts');
    const script = 'echo start >> "$0"; [ -e "$0.ok" ] || exit 1; exec "$1" "$2"';
    const args = ['-c', script, note, process.execPath, program];
    const yaml = `name: srv\ntype: mcp\nruns_on: host\ncommand: sh\nargs: ${JSON.stringify(args)}\n`;
    await using tools = await testTools([yaml]);
    for (let count = 0; count < 3; count++)
      expect((await tools.tools.describe('srv')).description).toContain('unknown');
    expect(readFileSync(note, 'utf8')).toBe('start\n');
    writeFileSync(`${note}.ok`, '');
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
    expect((await tools.tools.describe('srv')).recipes).not.toEqual([]);
  });

  it('is replaced after its definition has changed, and ended after it was deleted', async () => {
    await using tools = await testTools([stdio(), 'name: good\ncommand: echo fine\n']);
    const first = Number(await tools.call('srv.pid'));
    await tools.store.put('good', 'name: good\ncommand: echo other\n');
    expect(Number(await tools.call('srv.pid'))).toBe(first);
    await tools.store.put('srv', stdio('tags: [new]'));
    const second = Number(await tools.call('srv.pid'));
    expect(second).not.toBe(first);
    await until(() => !runs(first));
    await tools.store.delete('srv');
    await expect(tools.call('srv.pid')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    await until(() => !runs(second));
  });

  it('needs approval before its tool is called', async () => {
    const summaries: string[] = [];
    const approve = async ({ summary }: { summary: string }) => {
      summaries.push(summary);
      return false;
    };
    await using tools = await testTools([stdio('requires_approval: true')], { approve });
    await expect(tools.call('srv.say_twice', { text: 'hi' })).rejects.toMatchObject({ code: 'APPROVAL_REFUSED' });
    expect(summaries).toEqual(['say-twice {"text":"hi"}']);
  });
});

describe('an MCP server with a URL', patient, () => {
  it('gets the named credential', async () => {
    await using server = await current();
    const credentials = async () => 's3cret';
    await using tools = await testTools(
      [`name: srv\ntype: mcp\nurl: ${server.url}\nauth: {type: bearer, credential: key}\n`],
      { credentials },
    );
    await tools.call('srv.add', { a: 1 });
    expect(new Set(server.requests.map(({ authorization }) => authorization))).toEqual(new Set(['Bearer s3cret']));
  });

  it('that has forgotten the session is connected again', async () => {
    await using server = await sessions();
    await using tools = await testTools([`name: srv\ntype: mcp\nurl: ${server.url}\n`]);
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
    server.forget();
    expect(await tools.call('srv.add', { a: 2 })).toEqual({ sum: 3 });
  });

  it('that is unreachable is reported, and used again when it is back', async () => {
    let up = true;
    const handler = createMcpHandler(() => testServer());
    await using server = await serve(async (request, response) => {
      if (up) return await handler.fetch(request);
      response.destroy();
      return undefined;
    });
    await using tools = await testTools([`name: srv\ntype: mcp\nurl: ${server.url}\n`]);
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
    up = false;
    await expect(tools.call('srv.add', { a: 1 })).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    await expect(tools.call('srv.add', { a: 1 })).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    up = true;
    expect(await tools.call('srv.add', { a: 1 })).toEqual({ sum: 2 });
  });

  it('that redirects to another server is not followed', async () => {
    await using other = await current();
    await using server = await serve(async () => new Response(null, { status: 307, headers: { location: other.url } }));
    const yaml = `name: srv\ntype: mcp\nurl: ${server.url}\nauth: {type: bearer, credential: key}\n`;
    await using tools = await testTools([yaml], { credentials: async () => 's3cret' });
    await expect(tools.call('srv.add', { a: 1 })).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    expect(other.requests).toEqual([]);
  });
});
