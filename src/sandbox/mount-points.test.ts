import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  AGENT_PATHS,
  agentMounts,
  checkAgentMounts,
  GATEWAY_SOCKET,
  listenInGateway,
  makeGatewayFolder,
} from './mount-points.ts';

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cella-place-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('the mounts of an agent', () => {
  it('have the named folders, with links resolved, each at its own path', () => {
    const folder = scratch();
    mkdirSync(join(folder, 'real'), { mode: 0o755 });
    symlinkSync(join(folder, 'real'), join(folder, 'link'));
    const found = agentMounts({ node: join(folder, 'link'), gateway: folder }, false);
    expect(found).toEqual([
      { path: join(folder, 'real'), at: AGENT_PATHS.node },
      { path: folder, at: AGENT_PATHS.gateway },
    ]);
  });

  it('refuse a path that is not a folder, and name it', () => {
    const folder = scratch();
    writeFileSync(join(folder, 'file'), '');
    const refused = (message: string) => expect.objectContaining({ code: 'INVALID_OPTIONS', message });
    expect(() => agentMounts({ node: join(folder, 'gone') }, false)).toThrow(
      refused(`node: there is no folder ${folder}/gone.`),
    );
    expect(() => agentMounts({ node: folder, runner: join(folder, 'file') }, false)).toThrow(
      refused(`runner: ${folder}/file is not a folder.`),
    );
  });

  it('cannot be covered by a folder of a policy', () => {
    expect(() => checkAgentMounts([{ path: '/cella-data' }, { path: '/srv/cella' }])).not.toThrow();
    for (const path of ['/cella', '/cella/app/node', '/cella/other']) {
      expect(() => checkAgentMounts([{ path }])).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
    }
    expect(() => checkAgentMounts([{ path: '/srv', at: '/cella/gateway' }])).toThrow();
  });
});

describe('a gateway folder', () => {
  it('is private, holds a socket with any path length, and is removed at the end', async () => {
    const parent = join(scratch(), 'a'.repeat(100));
    const folder = makeGatewayFolder(parent);
    const server = createServer();
    await listenInGateway(folder, server);
    const mode = (path: string) => statSync(path).mode & 0o777;
    expect([mode(parent), mode(folder)]).toEqual([0o700, 0o755]);
    const socket = join(folder, GATEWAY_SOCKET);
    expect(statSync(socket).isSocket()).toBe(true);
    expect(mode(socket) & 0o666).toBe(0o666);
    await new Promise((resolve) => server.close(resolve));
    expect(statSync(socket, { throwIfNoEntry: false })).toBeUndefined();
  });
});
