/** `cella mcp` as a process: what it keeps, what it leaves behind, and what it says on which stream. */

import { once } from 'node:events';
import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { removeFolder } from '../../src/environments/files/remove-tree.ts';
import { Cella } from '../support/cli/command.ts';
import { eventually } from '../support/kernels/attack-code.ts';
import { openPlace } from '../support/packages/deps.ts';
import { descendants, isAlive } from '../support/processes/processes.ts';
import { RedisServer } from '../support/servers/redis.ts';
import { McpHost, textOf } from './client.ts';

const host = new McpHost();
const cella = new Cella();
afterAll(() => {
  host[Symbol.dispose]();
  cella[Symbol.dispose]();
});

const folder = (name: string) => mkdtempSync(join(host.folder, `${name}-`));
const message = (id: number, method: string, params: object) =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
const initialize = message(1, 'initialize', {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
});

describe('the kernel of a folder', () => {
  it('keeps its variables for the next server there, through any link, and no other folder has them', async () => {
    const [one, other] = [folder('one'), folder('other')];
    const link = join(host.folder, 'link');
    symlinkSync(one, link);
    {
      await using first = await host.stdio({ folder: one });
      await first.run('x = 41');
      await using second = await host.stdio({ folder: other });
      expect((await second.run("'x' in globals()")).text).toBe('False');
    }
    await using again = await host.stdio({ folder: link });
    expect((await again.run('x + 1')).text).toMatch(/^\[notice\] Variables restored .*: x\.\n42$/);
  });

  it('is used by one server: another gets an error, can read shared data, and gets the kernel when it is free', async () => {
    const shared = folder('shared');
    await using second = await host.stdio({ folder: shared });
    {
      await using first = await host.stdio({ folder: shared });
      await first.run('x = 1');
      const refused = await second.run('x');
      expect(refused).toMatchObject({ failed: true, text: expect.stringMatching(/^KEY_BUSY: /) });
      expect((await second.call('list_skills')).isError).toBeUndefined();
    }
    expect((await second.run('x')).text).toMatch(/1$/);
  });
});

describe('a server', () => {
  it('writes only the protocol to stdout, whatever code does', async () => {
    const started = cella.start(['mcp', '--key', 'plain']);
    started.type(initialize);
    await started.says('"id":1');
    const code = 'import os, sys\nos.system("echo from a child")\nos.write(1, b"raw\\n")\nprint("printed")';
    started.type(message(2, 'tools/call', { name: 'run_code', arguments: { code } }));
    await started.says('"id":2');
    started.type('this is no JSON\n');
    started.type(message(3, 'tools/list', {}));
    await started.says('"id":3');
    started.child.stdin?.end();
    expect(await started.ended).toBe(0);
    const lines = started.out.trim().split('\n');
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' });
    expect(lines.some((line) => line.includes('from a child'))).toBe(true);
  });

  it.each(['the end of stdin', 'SIGTERM', 'SIGINT'])(
    'saves and leaves no process after %s, even while code runs',
    async (how) => {
      const agent = `ending ${how}`;
      const started = cella.start(['mcp', '--key', agent]);
      started.type(initialize);
      await started.says('"id":1');
      const call = (id: number, code: string) =>
        started.type(
          message(id, 'tools/call', { name: 'run_code', arguments: { code }, _meta: { progressToken: id } }),
        );
      call(2, 'x = 41');
      await started.says('"id":2');
      call(3, 'print("looping", flush=True)\nwhile True: pass');
      await started.says('looping');
      const family = descendants(started.child.pid ?? 0);
      expect(family.length).toBeGreaterThan(0);
      if (how === 'SIGTERM' || how === 'SIGINT') started.child.kill(how);
      else started.child.stdin?.end();
      expect(await started.ended).toBe({ SIGTERM: 143, SIGINT: 130 }[how] ?? 0);
      await eventually(
        () => family.filter(({ pid }) => isAlive(pid)),
        (left) => left.length === 0,
        5000,
      );
      expect(await cella.run(['run', '--key', agent, '-c', 'x + 1'])).toMatchObject({ out: '42\n' });
    },
  );

  it('leaves no process when it is killed', async () => {
    const killed = cella.start(['mcp', '--key', 'orphan']);
    killed.type(initialize);
    killed.type(message(2, 'tools/call', { name: 'run_code', arguments: { code: '1' } }));
    await killed.says('"id":2');
    const family = descendants(killed.child.pid ?? 0);
    killed.child.kill('SIGKILL');
    await once(killed.child, 'exit');
    await eventually(
      () => family.filter(({ pid }) => isAlive(pid)),
      (left) => left.length === 0,
      5000,
    );
  });

  it('with locked packages has no tool to change them, and code cannot either', async () => {
    await using locked = await host.stdio({ folder: folder('locked'), flags: ['--no-runtime-deps'] });
    const { tools } = await locked.client.listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toContain('list_deps');
    expect(names).not.toContain('add_dep');
    expect(names).not.toContain('remove_dep');
    expect((await locked.run('deps.add("tiny")')).text).toMatch(/PermissionError/);
    expect(textOf(await locked.call('list_deps'))).toBe('No packages are configured.');
  });

  it('describes its tools for a model: what they do, what they take, and whether they change anything', async () => {
    await using open = await host.stdio({ folder: folder('taught') });
    const { tools } = await open.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      ...['run_code', 'list_tools', 'search_tools', 'list_skills', 'search_skills', 'create_skill', 'delete_skill'],
      ...['list_artifacts', 'list_deps', 'add_dep', 'remove_dep'],
    ]);
    for (const { name, description = '', annotations } of tools) {
      expect(description.length, name).toBeGreaterThan(40);
      expect(annotations?.readOnlyHint, name).toBe(/^(list|search)_/.test(name));
    }
    expect(open.client.getInstructions()).toContain('run_code');
  });

  it('fails input() and calls that need approval at once, clearly, if the client cannot ask', async () => {
    const tools = folder('tools');
    const asking = 'name: say\ndescription: says\ncommand: echo\nrequires_approval: true\n';
    writeFileSync(join(tools, 'say.yaml'), asking);
    await using mute = await host.stdio({ folder: folder('mute'), flags: ['--tools', tools] });
    expect((await mute.run('input("Who? ")')).text).toMatch(
      /EOFError: input\(\) was called, but this MCP client cannot/,
    );
    expect((await mute.run('tools.say()')).text).toMatch(/PermissionError.*nobody can be asked/);
  });

  it('uses --key and --timeout if a call sets none', async () => {
    await using named = await host.stdio({ folder: folder('named'), flags: ['--key', 'Ada', '--timeout', '0.5'] });
    expect((await named.run('x = 7\nwhile True: pass')).text).toContain('at the time limit');
    expect((await named.run('x', { agent_key: 'Ada' })).text).toBe('7');
  });
});

describe('packages', () => {
  it('are added for a running kernel and for later servers, and removed; failures are reported', {
    timeout: 120_000,
  }, async () => {
    const { index } = await openPlace();
    const env = { CELLA_INDEX: index.url };
    const flags = ['--key', 'packages'];
    {
      await using first = await host.stdio({ folder: folder('packages'), env, flags });
      await first.run('x = 1');
      const added = await first.call('add_dep', { requirement: 'tiny-a' });
      expect(added.structuredContent).toMatchObject({ installed: expect.arrayContaining(['tiny-a']), failed: [] });
      expect((await first.run('import tiny_a, tiny_b; x')).text).toBe('1');
      const failed = await first.call('add_dep', { requirement: 'no-such-package' });
      expect(failed).toMatchObject({ isError: true, structuredContent: { installed: [] } });
      expect(textOf(failed)).toMatch(/^Failed: no-such-package: /);
      expect(textOf(await first.call('list_deps'))).toBe('tiny-a');
    }
    await removeFolder(join(host.dataDir, 'packages'));
    {
      await using bare = await host.stdio({ folder: folder('packages'), env, flags: [...flags, '--no-sync-deps'] });
      expect((await bare.run('import importlib; importlib.import_module("tiny_b")')).text).toMatch(
        /ModuleNotFoundError/,
      );
    }
    await using synced = await host.stdio({ folder: folder('packages'), env, flags: ['--key', 'synced'] });
    expect(await synced.run('import tiny_a')).toMatchObject({ failed: false });
    await synced.call('remove_dep', { name: 'tiny-a' });
    expect(textOf(await synced.call('list_deps'))).toBe('No packages are configured.');
  });
});

describe('with Redis', () => {
  it('keeps variables across servers, and works again after an outage of Redis', async () => {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.remove());
    const flags = ['--storage', 'redis', '--redis', redis.url, '--prefix', 'mcp-test'];
    {
      await using first = await host.stdio({ folder: folder('redis'), flags: [...flags, '--key', 'redis'] });
      await first.run('x = 41');
    }
    await redis.stop();
    await using second = await host.stdio({ folder: folder('redis'), flags: [...flags, '--key', 'redis'] });
    expect(await second.run('x')).toMatchObject({
      failed: true,
      text: expect.stringMatching(/^STORAGE_UNREACHABLE: /),
    });
    await redis.restart();
    expect((await second.run('x + 1')).text).toMatch(/42$/);
  });
});
