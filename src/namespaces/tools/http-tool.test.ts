import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it, test } from 'vitest';
import { testTools } from '../../../test/support/namespaces/tools.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { readBody } from './http-tool.ts';

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly seen: Seen[];
}

type Answer = (request: Seen, response: ServerResponse) => void;

const echo: Answer = (request, response) =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify(request));

async function serve(answer: Answer = echo): Promise<TestServer> {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    const one = { method, url, headers, body: Buffer.concat(chunks).toString() };
    seen.push(one);
    answer(one, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}`, seen, [Symbol.asyncDispose]: close };
}

const credentials = async (name: string) => ({ key: 's3cret/+"x', empty: '', split: 'a\r\nb' })[name];

const yaml = (url: string, more = '') => `name: web\ntype: http\nurl: ${url}\n${more}`;

describe('an HTTP tool', () => {
  it('inserts values as the definition says, each with its type', async () => {
    await using server = await serve();
    const definition = `
name: web
type: http
method: POST
url: '${server.url}/v1/{owner}/items?fixed=1'
headers: {X-Lang: '{lang}', X-None: '{none}'}
query: {page: '{page}', tag: '{tags}', plain: true, none: '{none}'}
body: {title: 'Hello {owner}', count: '{page}', tags: '{tags}', none: '{none}', more: [1, '{none}', '{data}']}
parameters:
  owner: {required: true}
  page: {type: integer, default: 2}
  tags: {type: array, items: string}
  lang: {default: de}
  none: {}
  data: {type: object}
recipes:
  first: {preset: {page: 1}, params: {owner: {}}}
`;
    await using tools = await testTools([definition]);
    await tools.call('web', { tags: ['a', 'b&c'], data: { n: 12345678901234567890n } }, { positional: ['me'] });
    expect(server.seen).toMatchObject([
      {
        method: 'POST',
        url: '/v1/me/items?fixed=1&page=2&tag=a&tag=b%26c&plain=true',
        headers: { 'x-lang': 'de', 'content-type': 'application/json' },
        body: '{"title":"Hello me","count":2,"tags":["a","b&c"],"more":[1,{"n":12345678901234567890}]}',
      },
    ]);
    expect(server.seen[0]?.headers).not.toHaveProperty('x-none');
    await tools.call('web.first', { owner: 'you' });
    expect(server.seen[1]).toMatchObject({ url: '/v1/you/items?fixed=1&page=1&plain=true' });
    await expect(tools.call('web.first', { owner: 'you', lang: 'fr' })).rejects.toMatchObject({
      code: 'TOOL_ARGUMENTS',
    });
  });

  it('never lets a value change the host or the structure of the path', async () => {
    await using server = await serve();
    const text = yaml(`'${server.url}/a/{id}/b'`, 'parameters: {id: {required: true}}');
    await using tools = await testTools([text]);
    for (const id of [
      '../admin',
      'x/y',
      'x?y=1',
      'x#y',
      '@evil.example/',
      '\\..\\',
      '%2e%2e',
      'x\r\ny',
      'ä €',
      '...',
    ]) {
      expect(await tools.call('web', { id })).toMatchObject({ url: `/a/${encodeURIComponent(id)}/b` });
    }
    const before = server.seen.length;
    for (const id of ['.', '..', '', '\ud800']) {
      await expect(tools.call('web', { id })).rejects.toMatchObject({ code: 'TOOL_ARGUMENTS' });
    }
    expect(server.seen).toHaveLength(before);
  });

  it.each([
    ['a line break', 'a\r\nx-evil: 1'],
    ['a line feed', 'a\nb'],
    ['a NUL', 'a\0b'],
    ['letters that headers cannot hold', '日本'],
  ])('refuses %s in a header', async (_name, value) => {
    await using server = await serve();
    await using tools = await testTools([
      yaml(server.url, "headers: {x-value: '<{value}>'}\nparameters: {value: {required: true}}"),
    ]);
    await expect(tools.call('web', { value })).rejects.toMatchObject({ code: 'TOOL_ARGUMENTS' });
    expect(await tools.call('web', { value: 'fine' })).toMatchObject({ headers: { 'x-value': '<fine>' } });
    expect(server.seen).toHaveLength(1);
  });

  it('refuses wrong types and values that are not JSON before anything is sent', async () => {
    await using server = await serve();
    const body = "method: POST\nbody: {v: '{v}', n: '{n}'}\nparameters: {v: {type: any}, n: {type: integer}}";
    await using tools = await testTools([yaml(server.url, body)]);
    const wrong: Record<string, PyValue>[] = [{ n: 'x' }, { v: new Uint8Array(2) }, { v: [Number.NaN] }];
    for (const named of [...wrong, { v: { a: '\ud800' } }, { x: 1 }]) {
      await expect(tools.call('web', named)).rejects.toMatchObject({ code: 'TOOL_ARGUMENTS' });
    }
    expect(server.seen).toEqual([]);
  });

  it.each([
    ['bearer', 'auth: {type: bearer, credential: key}', { authorization: 'Bearer s3cret/+"x' }, '/'],
    [
      'basic',
      'auth: {type: basic, username: me, credential: key}',
      { authorization: `Basic ${btoa('me:s3cret/+"x')}` },
      '/',
    ],
    ['header', 'auth: {type: header, name: X-Key, credential: key}', { 'x-key': 's3cret/+"x' }, '/'],
    ['query', 'auth: {type: query, name: key, credential: key}', {}, '/?key=s3cret%2F%2B%22x'],
  ])('sends the credential that it names (%s), and the code never sees it', async (_name, auth, headers, url) => {
    await using server = await serve();
    await using tools = await testTools([yaml(server.url, auth)], { credentials });
    const value = await tools.call('web');
    expect(server.seen).toMatchObject([{ headers, url }]);
    expect(JSON.stringify(value)).not.toMatch(/s3cret|czNjcmV0/);
    expect(JSON.stringify(value)).toContain('[credential]');
  });

  it.each([
    ['URL', 'parameters: {long: {required: true}}', '/{long}'],
    ['query', 'query: {a: 1, b: "{long}"}\nparameters: {long: {type: array}}', ''],
    ['header', 'headers: {X-Long: "x{long}"}\nparameters: {long: {}}', ''],
  ])('refuses values that are too long for a %s, and sends them in a body', async (_where, more, path) => {
    await using server = await serve((_request, response) => void response.end());
    await using tools = await testTools([
      yaml(`'${server.url}${path}'`, more),
      `name: post\ntype: http\nmethod: POST\nurl: ${server.url}\nbody: {long: "{long}"}\nparameters: {long: {type: any}}\n`,
    ]);
    const long = (length: number) => (more.includes('array') ? Array(length).fill('') : '\u00e9'.repeat(length));
    await expect(tools.call('web', { long: long(65_537) })).rejects.toMatchObject({
      code: 'TOOL_ARGUMENTS',
      message: expect.stringMatching(/more than 65536 characters .* send less, or .* in `body`/),
    });
    expect(server.seen).toEqual([]);
    const sent = long(1_000_000);
    await tools.call('post', { long: sent });
    expect(JSON.parse(server.seen[0]?.body ?? '')).toEqual({ long: sent });
  });

  it('sends nothing if the credential is missing, empty or invalid', async () => {
    await using server = await serve();
    for (const name of ['unknown', 'empty', 'split']) {
      await using tools = await testTools([yaml(server.url, `auth: {type: bearer, credential: ${name}}`)], {
        credentials,
      });
      await expect(tools.call('web')).rejects.toMatchObject({
        code: 'CREDENTIAL_MISSING',
        message: expect.stringContaining(name),
      });
    }
    expect(server.seen).toEqual([]);
  });

  it('follows redirects on the same server, and never to another', async () => {
    await using other = await serve();
    await using server = await serve((request, response) => {
      const to = { '/near': '/end', '/far': `${other.url}/end`, '/loop': '/loop' }[request.url ?? ''];
      if (to === undefined) echo(request, response);
      else response.writeHead(request.method === 'PUT' ? 307 : 302, { location: to }).end();
    });
    const tool = (name: string, method = 'POST') =>
      `name: ${name}\ntype: http\nmethod: ${method}\nbody: {a: 1}\nurl: ${server.url}/${name.replace('again', 'near')}\nauth: {type: bearer, credential: key}\n`;
    await using tools = await testTools([tool('near'), tool('again', 'PUT'), tool('far'), tool('loop')], {
      credentials,
    });
    expect(await tools.call('near')).toMatchObject({ method: 'GET', url: '/end', body: '' });
    expect(await tools.call('again')).toMatchObject({ method: 'PUT', url: '/end', body: '{"a":1}' });
    await expect(tools.call('far')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringContaining('does not follow'),
    });
    await expect(tools.call('loop')).rejects.toThrow(/more than 5 times/);
    expect(other.seen).toEqual([]);
  });

  it('returns JSON, text or bytes by the content type', async () => {
    await using server = await serve((request, response) => {
      const [, type = '', body = ''] = decodeURIComponent(request.url ?? '').split('|');
      response.writeHead(body === '' ? 204 : 200, type === '' ? {} : { 'content-type': type }).end(body);
    });
    const parameters = 'parameters: {type: {required: true}, body: {default: "x"}}';
    await using tools = await testTools([yaml(`'${server.url}/|{type}|{body}'`, parameters)]);
    expect(await tools.call('web', { type: 'application/json', body: '{"a": [1]}' })).toEqual({ a: [1] });
    expect(await tools.call('web', { type: 'application/problem+json', body: '12345678901234567890' })).toBe(
      12345678901234567890n,
    );
    expect(await tools.call('web', { type: 'text/plain; charset=utf-8', body: 'ä' })).toBe('ä');
    expect(await tools.call('web', { type: 'image/png', body: 'ab' })).toEqual(new Uint8Array([97, 98]));
    await expect(tools.call('web', { type: 'application/json', body: '{' })).rejects.toMatchObject({
      code: 'TOOL_FAILED',
    });
    await expect(tools.call('web', { type: 'application/json', body: '['.repeat(5000) })).rejects.toMatchObject({
      code: 'TOOL_FAILED',
    });
  });

  it('returns the server’s message if it refused', async () => {
    await using server = await serve((_request, response) => response.writeHead(404).end('no such item'));
    await using tools = await testTools([yaml(server.url)]);
    await expect(tools.call('web')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringMatching(/^tools\.web got 404 from 127\.0\.0\.1:\d+\. It said: no such item$/),
      details: { status: 404 },
    });
  });

  it('reads no more than its limit, even if the answer never ends', async () => {
    await using server = await serve((request, response) => {
      response.setHeader('content-type', request.url === '/text' ? 'text/plain' : 'application/json');
      const more = (): void => {
        while (!response.destroyed && response.write('1'.repeat(10_000)));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    });
    const limit = 'output_limit: 1000\ntimeout: 20\n';
    await using tools = await testTools([
      yaml(`${server.url}/text`, limit),
      `name: json\ntype: http\nurl: ${server.url}/json\n${limit}`,
    ]);
    expect(await tools.call('web')).toBe(
      `${'1'.repeat(1000)}\n[the rest is missing: the output is longer than the output_limit of 1000 bytes]`,
    );
    await expect(tools.call('json')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringContaining('1000 bytes'),
    });
  });

  it('gives up at its timeout, and if the code no longer waits', async () => {
    const arrived = Promise.withResolvers<void>();
    await using server = await serve((request, response) => {
      if (request.url === '/slow') response.write('begins');
      arrived.resolve();
    });
    await using tools = await testTools([
      yaml(`${server.url}/slow`, 'timeout: 0.2'),
      `name: hangs\ntype: http\nurl: ${server.url}/hangs\n`,
    ]);
    await expect(tools.call('web')).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' });
    const stop = new AbortController();
    const call = tools.call('hangs', {}, { context: { signal: stop.signal } });
    const failed = expect(call).rejects.toMatchObject({ code: 'ABORTED' });
    await arrived.promise;
    stop.abort();
    await failed;
  });

  it('names the server that could not be reached, without the credential', async () => {
    const server = await serve();
    await server[Symbol.asyncDispose]();
    await using tools = await testTools([yaml(server.url, 'auth: {type: query, name: key, credential: key}')], {
      credentials,
    });
    const error = await tools.call('web').catch((failure: unknown) => failure);
    expect(error).toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringMatching(/could not reach 127\.0\.0\.1:\d+: .*ECONNREFUSED/),
    });
    expect(String(error)).not.toContain('s3cret');
  });

  it('asks for approval with the request, without the credential', async () => {
    await using server = await serve();
    const summaries: string[] = [];
    const approve = async ({ summary }: { summary: string }) => {
      summaries.push(summary);
      return true;
    };
    const more =
      "requires_approval: true\nmethod: POST\nbody: {v: '{v}'}\nparameters: {v: {}}\nauth: {type: query, name: key, credential: key}";
    await using tools = await testTools([yaml(server.url, more)], { credentials, approve });
    await tools.call('web', { v: 'x' });
    expect(summaries).toEqual([`POST ${server.url}/ as key (query "key") {"v":"x"}`]);
  });

  it('runs concurrently with others', async () => {
    const waiting: ServerResponse[] = [];
    await using server = await serve((_request, response) => {
      waiting.push(response);
      if (waiting.length === 8) for (const one of waiting) one.end('met');
    });
    await using tools = await testTools([yaml(server.url, 'timeout: 20')]);
    expect(await Promise.all(Array.from({ length: 8 }, () => tools.call('web')))).toEqual(Array(8).fill('met'));
  });
});

test('a response that arrives byte by byte takes no more memory than its bytes', async () => {
  setFlagsFromString('--expose-gc');
  const heldBytes = (): number => {
    runInNewContext('gc')();
    return process.memoryUsage().heapUsed + process.memoryUsage().external;
  };
  const before = heldBytes();
  let held = 0;
  async function* bytes() {
    for (let count = 0; count < 200_000; count++) yield new Uint8Array(1);
    held = heldBytes() - before;
  }
  const body = await readBody(new Response(ReadableStream.from(bytes())), 1_000_000);
  expect(body).toMatchObject({ bytes: { length: 200_000 }, cut: false });
  expect(held).toBeLessThan(10_000_000);
});
