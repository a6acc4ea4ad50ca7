/** The client and `cella serve` as people have them: the page of the client, and a server that is killed. */

import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { connect } from '../../../src/client/index.ts';
import { Cella, type Started } from '../../support/cli/command.ts';
import { CuttingProxy } from '../../support/servers/cutting-proxy.ts';
import { TestServer } from '../../support/servers/server.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..', '..');

describe('docs/library.md', () => {
  it('has a client program that prints the output below it', async () => {
    const text = readFileSync(join(root, 'docs', 'library.md'), 'utf8');
    const programs = [...text.matchAll(/```ts\n((?:(?!```)[\s\S])*)```\s+```text\n([\s\S]*?)```/g)];
    const [, code = '', output = ''] = programs.find(([, code]) => code?.includes("'cella/client'")) ?? [];
    await using server = await TestServer.start();
    // Inside the package, so that `cella/client` is found as a user's program finds it.
    const folder = mkdtempSync(join(root, 'dist', 'client-page-'));
    try {
      writeFileSync(join(folder, 'page.ts'), code);
      const env = { ...process.env, CELLA_URL: server.url, CELLA_TOKEN: server.token };
      expect((await run(process.execPath, [join(folder, 'page.ts')], { env })).stdout).toBe(output);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('a server that is killed', () => {
  const serve = async (cella: Cella): Promise<{ started: Started; url: string }> => {
    const started = cella.start(['serve', '--port', '0']);
    await started.says('The first cell');
    return { started, url: / at (https?:\S+)/.exec(started.out)?.[1] ?? '' };
  };

  it('during code is EXECUTION_LOST, queued code runs once on the next server, and variables stay', async () => {
    using cella = new Cella();
    const before = await serve(cella);
    await using proxy = await CuttingProxy.to(before.url);
    const token = readFileSync(join(cella.dataDir, 'admin-token'), 'utf8').trim();
    const client = await connect({ url: proxy.url, token });
    const session = await client.open({ agentKey: 'killed' });
    await session.run('kept = [0]');
    await session.save();
    const ready = Promise.withResolvers<void>();
    const lost = session.run('print("ready", flush=True)\nwhile True: pass', {
      onEvent: (event) => event.type === 'stdout' && ready.resolve(),
    });
    const told = expect(lost).rejects.toMatchObject({ code: 'EXECUTION_LOST' });
    await ready.promise;
    const waiting = session.run('kept.append(1)\nkept');
    before.started.child.kill('SIGKILL');
    await before.started.ended;
    const after = await serve(cella);
    proxy.target = new URL(after.url);
    await told;
    expect(await waiting).toMatchObject({ status: 'ok', value: [0, 1] });
    after.started.child.kill('SIGTERM');
    expect(await after.started.ended).toBe(0);
  });
});
