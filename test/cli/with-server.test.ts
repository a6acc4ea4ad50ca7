/** What is particular to commands that work with a server: whose session it is, what can be told, and who is asked. */

import { chownSync, existsSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../src/client/index.ts';
import { McpHost } from '../mcp/client.ts';
import { runHere } from '../support/cli/cli-here.ts';
import { folder, newCella, serve } from '../support/cli/servers.ts';
import { RedisServer } from '../support/servers/redis.ts';

const cella = newCella();
let url = '';
let tokenFile = '';

describe('a command with a server', () => {
  beforeAll(async () => {
    ({ url, tokenFile } = await serve(cella));
  });
  const run = (...words: string[]) => cella.run(words);

  it('uses the existing session unchanged, and names options that differ', async () => {
    const made = ['run', '--key', 'made', '--memory', '512', '--no-runtime-deps', '-c', 'x = 1'];
    expect(await run(...made)).toMatchObject({ code: 0 });
    expect(await run('run', '--key', 'made', '-c', 'x')).toMatchObject({ code: 0, out: '1\n' });
    expect(await run(...made)).toMatchObject({ code: 0 });
    expect(await run('run', '--key', 'made', '--memory', '600', '--sandbox', 'off', '-c', 'x')).toMatchObject({
      code: 2,
    });
    const { code, err } = await run('run', '--key', 'made', '--memory', '600', '--network', 'host', '-c', 'x');
    expect(code).toBe(1);
    expect(err).toMatch(/"made" was created without --network and --memory\.\n.*cella sessions delete made/);
  });

  it.each(['on its data folder', 'at an address'])(
    'manages tools, skills, artifacts, packages and checkpoints of the server %s without a session',
    async (where) => {
      const own = newCella();
      // A key that no session has.
      await own.run(['run', '--key', 'early', '-c', 'x = 1']);
      await own.run(['checkpoints', 'create', 'kept', '--key', 'early']);
      const served = await serve(own);
      await using client = await connect({ socket: join(own.dataDir, 'daemon.sock') });
      const flags = where === 'at an address' ? ['--url', served.url, '--token-file', served.tokenFile] : [];
      const done = async (group: string, verb: string, ...words: string[]) => {
        const { code, out, err } = await runHere([group, verb, ...flags, ...words], own.dataDir);
        expect({ code, err, of: [group, verb] }).toMatchObject({ code: 0, of: [group, verb] });
        return out;
      };
      await done('tools', 'create', yaml());
      expect(await done('tools', 'list')).toContain('speak');
      expect(await done('tools', 'search', 'speaks')).toContain('speak');
      expect(await done('tools', 'show', 'speak')).toContain('Speaks');
      await done('tools', 'delete', 'speak');
      const source = join(folder, 'double.py');
      writeFileSync(source, 'async def run(n: int):\n    return n * 2\n');
      await done('skills', 'create', 'double', source);
      expect(await done('skills', 'list')).toContain('double');
      expect(await done('skills', 'show', 'double')).toContain('n * 2');
      await done('skills', 'delete', 'double');
      await done('artifacts', 'save', 'note', source, '--type', 'text');
      expect(await done('artifacts', 'list')).toContain('note');
      expect(await done('artifacts', 'load', 'note')).toContain('n * 2');
      await done('artifacts', 'delete', 'note');
      await done('deps', 'add', 'tiny-thing');
      expect(await done('deps', 'list')).toBe('tiny-thing\n');
      await done('deps', 'sync');
      await done('deps', 'remove', 'tiny-thing');
      const early = ['--key', 'early'];
      expect(await done('checkpoints', 'list', ...early)).toContain('kept');
      expect(await done('checkpoints', 'show', 'kept', ...early)).toContain('variables');
      await done('checkpoints', 'delete', 'kept', ...early);
      expect(await done('checkpoints', 'list', ...early)).not.toContain('kept');
      expect(await done('checkpoints', 'list', '--key', 'nobody')).toBe('');
      expect((await client.sessions.list()).sessions).toEqual([]);
      expect(await client.kernels()).toMatchObject([{ agentKey: 'early', state: 'hibernated' }]);
      const told = await runHere(['deps', 'sync', ...flags, '--executor', 'container'], own.dataDir);
      expect(told).toMatchObject({ code: 2, err: expect.stringContaining('--sync-deps') });
      await served.end();
    },
    120_000,
  );

  it('refuses options that a server cannot take', async () => {
    for (const [flags, told] of [
      [['--python', '/usr/bin/python3'], '--python cannot be used with the server on'],
      [['--wheels', folder], '--wheels cannot be used with the server on'],
      [['--url', url, '--token-file', tokenFile, '--cwd', '/tmp'], '--cwd names a folder of this machine'],
      [['--url', url, '--data', folder], '--data cannot be used with --url'],
      [['--url', url, '--redis', 'redis://127.0.0.1:1'], '--redis cannot be used with --url'],
      [['--url', url], 'needs a token'],
      [['--token-file', tokenFile], '--token-file needs --url'],
    ] as const) {
      expect(await run('run', ...flags, '-c', '1')).toMatchObject({
        code: 2,
        out: '',
        err: expect.stringContaining(told),
      });
    }
    const nobody = await run('run', '--url', 'http://127.0.0.1:1', '--token-file', tokenFile, '-c', '1', '--json');
    expect(JSON.parse(nobody.out)).toMatchObject({ code: 'SERVER_UNREACHABLE' });
  });

  it('works in the given folder if the server is on its data folder', async () => {
    const place = mkdtempSync(join(folder, 'place-'));
    const code = 'open("made here", "w").write("yes"); import os; os.getcwd()';
    expect(await run('run', '--key', 'placed', '--cwd', place, '-c', code)).toMatchObject({ code: 0 });
    expect(readFileSync(join(place, 'made here'), 'utf8')).toBe('yes');
  });

  it('uses no socket that an earlier server has left', async () => {
    const stale = newCella();
    const left = createServer();
    await new Promise<void>((resolve) => left.listen(join(stale.dataDir, 'daemon.sock'), resolve));
    // Closing it would remove the file, as a server that is killed does not.
    const kept = join(stale.dataDir, 'kept.sock');
    renameSync(join(stale.dataDir, 'daemon.sock'), kept);
    await new Promise((resolve) => left.close(resolve));
    if (existsSync(kept)) renameSync(kept, join(stale.dataDir, 'daemon.sock'));
    writeFileSync(join(stale.dataDir, 'daemon.json'), JSON.stringify({ pid: process.pid, url: 'http://127.0.0.1:1' }));
    expect(await stale.run(['run', '-c', '6 * 7'])).toEqual({ code: 0, out: '42\n', err: '' });
  });

  it('uses the storage of the server, and no server with another storage', async () => {
    const redis = await RedisServer.start();
    const kept = newCella();
    const { end } = await serve(kept, ['--storage', 'redis'], { CELLA_REDIS: redis.url });
    try {
      const put = await kept.run(['artifacts', 'save', 'note', '-', '--type', 'text'], { input: 'in Redis' });
      expect(put).toMatchObject({ code: 0 });
      const load = ['-c', 'x = artifacts.load("note"); x'];
      expect((await kept.run(['run', ...load])).out).toBe("'in Redis'\n");
      expect((await kept.run(['run', '--redis', redis.url, '-c', 'x'])).out).toBe("'in Redis'\n");
      const other = await kept.run(['run', '--redis', redis.url, '--prefix', 'other', ...load]);
      expect(other).toMatchObject({ code: 1, err: expect.stringContaining('There is no artifact') });
    } finally {
      await end();
      await redis.remove();
    }
  });

  it.runIf(process.getuid?.() === 0)('uses no server of another user', async () => {
    const foreign = newCella();
    const socket = join(foreign.dataDir, 'daemon.sock');
    await using listening = await new Promise<Server>((resolve) => {
      const server = createServer().listen(socket, () => resolve(server));
    });
    chownSync(socket, 65_534, 65_534);
    expect(await foreign.run(['run', '-c', '1'])).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringMatching(/belongs to another user\.\n.*--url/),
    });
    expect(listening.listening).toBe(true);
  });

  it('leaves no code running when it is killed', async () => {
    const code = 'import time\nprint("on", flush=True)\ntime.sleep(600)';
    const killed = cella.start(['run', '--key', 'killed', '-c', code]);
    await killed.says('on\n');
    killed.child.kill('SIGKILL');
    expect(await killed.ended).toBe('SIGKILL');
    expect(await run('run', '--key', 'killed', '--timeout', '30', '-c', '"next"')).toMatchObject({ out: "'next'\n" });
  });

  it('serves the sessions of the server to an MCP client, which answers what only its person can answer', async () => {
    await run('tools', 'create', '--replace', yaml());
    using host = new McpHost();
    const person = () => ({ allow: true });
    const wanted = { flags: ['--key', 'for mcp'], env: { CELLA_DATA_DIR: cella.dataDir } };
    await using mute = await host.stdio(wanted);
    expect((await mute.run('x = 41')).failed).toBe(false);
    expect((await run('run', '--key', 'for mcp', '-c', 'x + 1')).out).toBe('42\n');
    expect((await mute.run('tools.speak("hi")')).text).toMatch(/PermissionError.*nobody can be asked/);
    await using asked = await host.stdio({ ...wanted, person });
    expect((await asked.run('x, tools.speak("hi").strip()')).text).toContain("(41, 'hi')");
    expect((await asked.call('list_artifacts')).isError).not.toBe(true);
  });

  it('lets another responder of the session approve, and the first answer wins', async () => {
    await run('tools', 'create', '--replace', yaml());
    await using client = await connect({ socket: join(cella.dataDir, 'daemon.sock') });
    const asked: string[] = [];
    await using session = await client.open(
      { agentKey: 'responding' },
      {
        approve: async ({ summary }) => {
          asked.push(summary);
          return { allowed: asked.length === 1, reason: 'once is enough' };
        },
      },
    );
    expect(await run('run', '--key', 'responding', '-c', 'tools.speak("hi").strip()')).toMatchObject({ out: "'hi'\n" });
    const again = await run('run', '--key', 'responding', '-c', 'tools.speak("hi")');
    expect(again).toMatchObject({ code: 1, err: expect.stringMatching(/requires approval.*once is enough/) });
    expect(asked).toEqual(['echo hi', 'echo hi']);
    const { events } = await session.eventPage();
    const answers = events.filter(({ type }) => type === 'permission_resolved');
    expect(answers).toMatchObject([
      { outcome: 'allowed', by: 'local' },
      { outcome: 'denied', by: 'local' },
    ]);
  });
});

const yaml = () => {
  const path = join(folder, 'speak.yaml');
  const words = 'schema:\n  options: {}\n  positional: [{ name: words, variadic: true, type: string }]\n';
  writeFileSync(path, `name: speak\ndescription: Speaks\ncommand: echo\nrequires_approval: true\n${words}`);
  return path;
};
