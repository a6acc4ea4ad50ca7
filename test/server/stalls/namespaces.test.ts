/** Nothing that a user keeps stops the event loop when code lists it: artifacts and skills, also those of older servers, and what tools give. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';
import { Server } from './rows.ts';

const ARTIFACTS = 200;
const OLD_KEYS = 4500;
const OLD_SKILLS = [1000, 10_000, 20_000, 35_000];

let server: Server;
let token: string;
let session: string;

beforeAll(async () => {
  const dataDir = await scratchFolder();
  token = await fillAsOlderServers(dataDir);
  server = await Server.start(dataDir);
  session = (await server.json<{ id: string }>('POST /v1/sessions', token, { agentKey: 'things' })).id;
  await run('1');
}, 300_000);
afterAll(() => server?.end());

/** They knew no limit on the parts of metadata, and none on parameters. */
async function fillAsOlderServers(dataDir: string): Promise<string> {
  await using storage = await FileStorage.open(dataDir);
  await using access = await openAccess({ storage, dataDir, rates: { burst: 1, perSecond: 1 } });
  const by = access.localAdmin();
  const ann = await access.users.create(by, { name: 'ann' });
  const scope = storage.scope(ann.id);
  const metadata = Object.fromEntries(Array.from({ length: OLD_KEYS }, (_, number) => [`key${number}`, number]));
  for (let number = 0; number < ARTIFACTS; number += 1) {
    const writer = await scope.artifacts.begin(`old-${String(number).padStart(3, '0')}`);
    await writer.write(Buffer.from('x'));
    await writer.finish({ type: 'bytes', mediaType: 'text/plain', description: '', metadata });
  }
  for (const count of OLD_SKILLS) {
    const names = Array.from({ length: count }, (_, number) => `a${number}`);
    await scope.skills.put(`old_${count}`, `async def run(${names.join(',')}):\n    "text"\n    return ${count}\n`);
  }
  return (await access.tokens.create(by, { name: 'test', user: 'ann' })).token;
}

interface Ran {
  readonly status: string;
  readonly value?: unknown;
}

const run = (code: string, at = session, as = token) =>
  server.json<Ran>(`POST /v1/sessions/${at}/execute`, as, { code });
const row = (name: string, work: () => Promise<unknown>) =>
  it(name, { timeout: 300_000 }, async () => {
    const stall = await expectNoStall(work, serverLoop(server.url, server.pid));
    console.log(`${name}: longest stall ${stall.toFixed(1)} ms`);
  });
const runs = async (code: string, value: unknown, at = session, as = token) =>
  expect(await run(code, at, as)).toMatchObject({ status: 'ok', value });
const get = async (path: string) =>
  expect(await server.discard('GET', `/v1/sessions/${session}${path}`, token), path).toBe(200);

describe('artifacts with more metadata than the current limit', () => {
  row('are listed by code, all of them', () =>
    runs('all = artifacts.list()\n[len(all), sum(len(one["metadata"]) for one in all)]', [
      ARTIFACTS,
      ARTIFACTS * OLD_KEYS,
    ]),
  );
  row('are listed over HTTP', () => get('/artifacts'));
});

describe('skills with more parameters than the current limit', () => {
  row('are listed by code', () => runs('len(skills.list())', OLD_SKILLS.length));
  row('are found by code', () => runs('len(skills.search("text", limit=20))', OLD_SKILLS.length));
  row('are listed over HTTP', () => get('/skills'));
  row('are called', () => runs('skills.old_10000(*range(10_000))', 10_000));
});

describe('items at their limits', () => {
  row('are saved: artifacts with as many keys as may be', () =>
    runs(
      'for n in range(30): artifacts.save("new-%d" % n, b"", metadata={"k%d" % key: key for key in range(1000)})\n1',
      1,
    ),
  );
  row('are refused: metadata with as many parts as travel', () =>
    runs(
      'try: artifacts.save("x", b"", metadata={"k": list(range(49_000))})\nexcept ValueError as error: told = error.code\ntold',
      'ARTIFACT_INVALID',
    ),
  );
  row('are refused: skills with more parameters than may be', () =>
    runs(
      'try: skills.create("x", "async def run(%s): pass" % ",".join("a%d" % n for n in range(35_000)))\nexcept ValueError as error: told = error.code\ntold',
      'SKILL_INVALID',
    ),
  );
});

describe('output of a tool', () => {
  let own: string;
  const programs = {
    empty_lists: `print('[' + '[],' * 340_000 + '[]]')`,
    many_keys: `print('{' + ','.join('"%d":0' % n for n in range(95_000)) + '}')`,
    surrogates: `print('["' + '\\\\udc80' * 170_000 + '"]')`,
    long_numbers: `print('[' + '99999999999999999999,' * 45_000 + '0]')`,
  };
  beforeAll(async () => {
    own = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'tools' })).id;
    for (const [name, program] of Object.entries(programs)) {
      const yaml = JSON.stringify({ name, type: 'cli', command: ['python3', '-c', program], result: 'json' });
      await server.json(`POST /v1/sessions/${own}/tools`, server.token, { yaml });
    }
  });
  for (const name of Object.keys(programs)) {
    row(`${name}, to code`, async () =>
      expect(await run(`value = tools.${name}()\n1`, own, server.token)).toMatchObject({ status: 'ok' }),
    );
    row(`${name}, to a caller over HTTP`, async () => {
      const status = await server.discard('POST', `/v1/sessions/${own}/tools/${name}/call`, server.token, {});
      expect(status).toBe(200);
    });
  }
});

describe('a tool on a host with 2,000 other processes', () => {
  let own: string;
  let others: number;
  beforeAll(async () => {
    const script = 'for n in $(seq 2000); do sleep 1000 & done; echo started; wait';
    const { pid, stdout } = spawn('sh', ['-c', script], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
    others = pid ?? 0;
    await once(stdout, 'data');
    own = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'host' })).id;
    const yaml = JSON.stringify({ name: 'on_host', type: 'cli', runs_on: 'host', command: ['true'] });
    await server.json(`POST /v1/sessions/${own}/tools`, server.token, { yaml });
  });
  afterAll(() => void process.kill(-others, 'SIGKILL'));
  row('is called five times', () => runs('for _ in range(5): tools.on_host()\n1', 1, own, server.token));
});

/** Its argument says what the list of its tools is long by. */
const MCP_SERVER = `
import json, sys
R = '{"jsonrpc":"2.0","id":%d,"result":'
MB = 1 << 20
def keys(count): return ",".join('"k%d":0' % n for n in range(count))
answers = {
    "nested": '{"content":[],"structuredContent":{"a":[' + ",".join(["[]"] * (5 * MB)) + "]}}}",
    "deep": '{"content":[],"structuredContent":{"a":' + "[" * (2 * MB) + "]" * (2 * MB) + "}}}",
    "keys": '{"content":[],"structuredContent":{' + keys(300_000) + "}}}",
    "long": '{"content":[{"type":"text","text":"' + "x" * (15 * MB) + '"}]}}',
    "lists": '{"content":[],"structuredContent":{"a":[' + ",".join(["[]"] * 19_900) + "]}}}",
    "names": '{"content":[],"structuredContent":{' + keys(35_000) + "}}}",
    "more": '{"content":[],' + keys(35_000) + "}}",
    "parts": '{"content":[' + ",".join(['{"type":"text","text":""}'] * 9_500) + "]}}",
    "text": '{"content":[{"type":"text","text":"' + "x" * (4 * MB - 1000) + '"}]}}',
}
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in [*answers, "flood"]]
listed = sys.argv[1] if len(sys.argv) > 1 else ""
if listed == "tools": tools = [{"name": "t%d" % n, "inputSchema": {"type": "object"}} for n in range(6_000)]
if listed == "arguments":
    answers["take"] = '{"content":[]}}'
    tools = [{"name": "take", "inputSchema": {"type": "object", "additionalProperties": True}}]
if listed == "texts": tools = [{"name": "t%d" % n, "description": " ".join("word%dx%d" % (n, k) for k in range(60)), "inputSchema": {"type": "object"}} for n in range(5_000)]
if listed == "properties": tools = [{"name": "t", "inputSchema": {"type": "object", "properties": {"p%d" % n: {} for n in range(15_000)}}}]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, params = message["method"], message.get("params", {})
    write = lambda text: sys.stdout.write(R % message["id"] + text + "\\n")
    if method == "initialize":
        facts = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        write(json.dumps(facts) + "}")
    elif method == "tools/list": write(json.dumps({"tools": tools}) + "}")
    elif params["name"] == "flood":
        sys.stdout.write('{"jsonrpc":"2.0","method":"notifications/x"}\\n' * 50_000)
        write('{"content":[]}}')
    else: write(answers[params["name"]])
    sys.stdout.flush()
`;

describe('messages of an MCP server', () => {
  let own: string;
  beforeAll(async () => {
    own = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'mcp' })).id;
    for (const listed of ['', 'tools', 'properties', 'texts']) {
      const name = `mcp_${listed}`;
      const args = ['-c', MCP_SERVER, listed];
      const yaml = JSON.stringify({
        name,
        type: 'mcp',
        runs_on: 'host',
        command: 'python3',
        args,
        output_limit: 64 * 2 ** 20,
      });
      await server.json(`POST /v1/sessions/${own}/tools`, server.token, { yaml });
    }
  });
  const call = (name: string) =>
    `try: tools.mcp_.${name}(); told = "given"\nexcept Exception as error: told = error.code\ntold`;
  for (const name of ['nested', 'deep', 'keys', 'long']) {
    row(`more than may be: ${name}`, async () =>
      expect(await run(call(name), own, server.token)).toMatchObject({ value: 'TOOL_FAILED' }),
    );
  }
  for (const name of ['lists', 'names', 'more', 'parts', 'text', 'flood']) {
    row(`as much as may be: ${name}`, async () =>
      expect(await run(call(name), own, server.token)).toMatchObject({ value: 'given' }),
    );
  }
  for (const [listed, code] of [
    ['tools', '"t5999" in dir(tools.mcp_tools)'],
    ['properties', '"p14999" in tools.mcp_properties.t.__doc__'],
    ['texts', `[tool["name"] for tool in tools.search("${QUERY}")] == ["mcp_texts"]`],
  ] as const) {
    row(`as many as may be: ${listed}`, async () =>
      expect(await run(code, own, server.token)).toMatchObject({ value: true }),
    );
  }
});

/** As many words as count. */
const QUERY = Array.from({ length: 64 }, (_, at) => `word4999x${at}`).join(' ');

describe('arguments of a tool', () => {
  let own: string;
  const http = createServer((request, response) => {
    request.resume().once('end', () => response.end('given'));
  });
  beforeAll(async () => {
    await once(http.listen(0, '127.0.0.1'), 'listening');
    own = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'arguments' })).id;
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
    const [text, list] = [{ text: { type: 'string', required: true } }, { items: { type: 'array' } }];
    const places = [{ name: 'items', variadic: true }];
    const tools = {
      http: { type: 'http', url, method: 'POST', parameters: text, body: { text: '{text}' } },
      query: { type: 'http', url, parameters: list, query: { items: '{items}' } },
      path: { type: 'http', url: `${url}{text}`, parameters: text },
      cli: { type: 'cli', command: ['echo', '-n', 'given'], schema: { positional: places } },
      mcp: { type: 'mcp', runs_on: 'host', command: 'python3', args: ['-c', MCP_SERVER, 'arguments'] },
    };
    for (const [name, tool] of Object.entries(tools)) {
      for (const requires_approval of [false, true]) {
        const yaml = JSON.stringify({
          name: `${requires_approval ? 'asked' : 'to'}_${name}`,
          requires_approval,
          ...tool,
        });
        await server.json(`POST /v1/sessions/${own}/tools`, server.token, { yaml });
      }
    }
    await run(
      `text = "\x01" * 2_000_000\nnumbers = list(range(49_000))\nwords = [str(n) for n in numbers]\ntexts = ["\x01" * 1000] * 2000`,
      own,
      server.token,
    );
  });
  afterAll(() => {
    http.closeAllConnections();
    http.close();
  });
  const call = (call: string) =>
    `try: tools.${call}; told = "given"\nexcept Exception as error: told = error.code\ntold`;
  for (const [called, value] of [
    ['http(text=text)', 'given'],
    ['query(items=numbers)', 'TOOL_ARGUMENTS'],
    ['query(items=texts)', 'TOOL_ARGUMENTS'],
    ['path(text=text)', 'TOOL_ARGUMENTS'],
    ['cli(*words)', 'given'],
    ['cli(*texts)', 'given'],
    ['mcp.take(text=text)', 'given'],
    ['mcp.take(items=numbers)', 'given'],
  ] as const) {
    row(`as many as travel: ${called}`, async () =>
      expect(await run(call(`to_${called}`), own, server.token)).toMatchObject({ value }),
    );
    row(`as many as travel, if it requires approval: ${called}`, async () =>
      expect(await run(call(`asked_${called}`), own, server.token)).toMatchObject({
        value: value === 'given' ? 'APPROVAL_REFUSED' : value,
      }),
    );
  }
});

/** The results of calls, made before anything is measured: this process looks at the server meanwhile. */
const HTTP_ANSWERS: Record<string, string> = {
  nested: `{"content":[],"structuredContent":{"a":[${Array(1_200_000).fill('[]')}]}}`,
  deep: `{"content":[],"structuredContent":{"a":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}}`,
  keys: `{"content":[],"structuredContent":{${Array.from({ length: 200_000 }, (_, at) => `"k${at}":0`)}}}`,
  long: `{"content":[{"type":"text","text":"${'x'.repeat(15 * 2 ** 20)}"}]}`,
  names: `{"content":[],"structuredContent":{${Array.from({ length: 35_000 }, (_, at) => `"k${at}":0`)}}}`,
  text: `{"content":[{"type":"text","text":"${'x'.repeat(4 * 2 ** 20 - 1000)}"}]}`,
};

/** Answers with JSON, or with an event if the path says so. */
function mcpServer(): HttpServer {
  const tools = Object.keys(HTTP_ANSWERS).map((name) => ({ name, inputSchema: { type: 'object' } }));
  return createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(String(Buffer.concat(chunks)));
    if (id === undefined) return void response.writeHead(202).end();
    const serverInfo = { name: 'x', version: '1' };
    const results: Record<string, string | undefined> = {
      initialize: JSON.stringify({ protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo }),
      'tools/list': JSON.stringify({ tools }),
      'tools/call': HTTP_ANSWERS[params?.name],
    };
    const result = results[method];
    const part = result === undefined ? '"error":{"code":-32601,"message":"no such method"}' : `"result":${result}`;
    const message = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${part}}`;
    const isEvents = request.url === '/events';
    response.setHeader('content-type', isEvents ? 'text/event-stream' : 'application/json');
    response.end(isEvents ? `event: message\ndata: ${message}\n\n` : message);
  });
}

describe('messages of an MCP server over HTTP', () => {
  let own: string;
  const http = mcpServer();
  beforeAll(async () => {
    await once(http.listen(0, '127.0.0.1'), 'listening');
    own = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'mcp-http' })).id;
    for (const kind of ['json', 'events']) {
      const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/${kind}`;
      const yaml = JSON.stringify({ name: `http_${kind}`, type: 'mcp', url, output_limit: 64 * 2 ** 20 });
      await server.json(`POST /v1/sessions/${own}/tools`, server.token, { yaml });
    }
  });
  afterAll(() => {
    http.closeAllConnections();
    http.close();
  });
  for (const kind of ['json', 'events']) {
    const call = (name: string) =>
      `try: tools.http_${kind}.${name}(); told = "given"\nexcept Exception as error: told = error.code\ntold`;
    for (const [name, value] of [
      ...['nested', 'deep', 'keys', 'long'].map((name) => [name, 'TOOL_FAILED'] as const),
      ...['names', 'text'].map((name) => [name, 'given'] as const),
    ]) {
      row(`${value === 'given' ? 'as much as' : 'more than'} may be, as ${kind}: ${name}`, async () =>
        expect(await run(call(name), own, server.token)).toMatchObject({ value }),
      );
    }
  }
});
