/** What was refused is in the audit log and in a metric, and nobody can fill the log by being refused. */

import { beforeAll, describe, expect, it } from 'vitest';
import type { AuditRecord } from '../../src/protocol/access.ts';
import { Daemon } from '../support/daemon.ts';

let daemon: Daemon;

beforeAll(async () => {
  daemon = await Daemon.start();
});

async function refusalsOf(kind: string): Promise<AuditRecord[]> {
  const { json } = await daemon.call<{ entries: AuditRecord[] }>('GET /v1/audit?limit=1000');
  return json.entries.filter((entry) => entry.kind === kind);
}

async function countOf(kind: string): Promise<number> {
  const { text } = await daemon.call('GET /metrics');
  return Number(new RegExp(`^cella_refused_total\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text)?.[1]);
}

describe('what was refused is in the audit log and counted', () => {
  it.each([
    ['token', 'GET /v1/me', { token: 'cella_abc_def' }, { from: '127.0.0.1', code: 'UNAUTHENTICATED' }],
    ['login', 'POST /login?code=wrong', { token: null }, { action: 'login' }],
    ['origin', 'GET /v1/me', { headers: { origin: 'https://evil.example' } }, { code: 'FORBIDDEN' }],
  ])('%s: %s', async (kind, call, options, entry) => {
    const before = await countOf(kind);
    expect((await daemon.call(call, options)).status).toBeGreaterThanOrEqual(400);
    expect(await countOf(kind)).toBe(before + 1);
    await expect.poll(() => refusalsOf(kind)).toContainEqual(expect.objectContaining({ outcome: 'refused', ...entry }));
  });

  it('routes that somebody may not use, with who it was', async () => {
    const token = await daemon.user('vera', 'viewer');
    await daemon.call('GET /v1/users', { token });
    await daemon.call('POST /v1/sessions', { token, body: {} });
    const entries = await refusalsOf('forbidden');
    expect(entries).toMatchObject([
      { userName: 'vera', action: 'get /v1/users', code: 'FORBIDDEN' },
      { userName: 'vera', action: 'session.create' },
    ]);
  });

  it('paths that lead out of the workspace, with the session', async () => {
    const { id } = await daemon.session({ agentKey: 'paths' });
    for (const path of ['../x', '/etc/passwd']) {
      const { status } = await daemon.call(`PUT /v1/sessions/${id}/files/content?path=${encodeURIComponent(path)}`, {
        body: 'x',
      });
      expect(status).toBe(400);
    }
    const entries = await refusalsOf('path');
    expect(entries).toHaveLength(2);
    expect(entries[0]).toMatchObject({ session: id, action: 'file.write', target: '../x', userName: 'local' });
  });

  it('what the code of a session tries: frames that are none, calls that there are not', async () => {
    const { id } = await daemon.session({ agentKey: 'hostile' });
    await daemon.run(id, 'from cella_kernel.namespaces import host\nhost.call("tools.everything")');
    expect(await refusalsOf('namespace')).toMatchObject([{ session: id, userId: 'local', detail: 'tools.everything' }]);
    await daemon.run(
      id,
      'import os\nfor fd in range(3, 300):\n  try: os.write(fd, b"\\xff" * 64)\n  except OSError: pass',
    );
    const entries = await refusalsOf('kernel_protocol');
    expect(entries).toMatchObject([{ session: id, userId: 'local', code: 'KERNEL_PROTOCOL' }]);
    expect(await countOf('kernel_protocol')).toBe(1);
  });
});

it('a viewer who is refused a thousand times leaves a few entries, and others lose none', async () => {
  const token = await daemon.user('flo', 'viewer');
  const { id } = await daemon.session({ agentKey: 'flooded', shares: [{ user: 'flo', right: 'view' }] });
  const before = await countOf('forbidden');
  for (let round = 0; round < 20; round++) {
    await Promise.all(
      Array.from({ length: 50 }, () => daemon.call(`POST /v1/sessions/${id}/execute`, { token, body: { code: '1' } })),
    );
  }
  await daemon.call(`PATCH /v1/sessions/${id}`, { body: { labels: { after: 'flood' } } });
  const { json } = await daemon.call<{ entries: AuditRecord[] }>(`GET /v1/audit?limit=1000&session=${id}`);
  const refused = json.entries.filter(({ outcome }) => outcome === 'refused');
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(20);
  expect(json.entries.at(-1)).toMatchObject({ action: 'session.update', outcome: 'ok' });
  expect((await countOf('forbidden')) + (await countOf('rate'))).toBeGreaterThanOrEqual(before + 1000);
});
