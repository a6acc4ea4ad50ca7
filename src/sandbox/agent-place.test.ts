import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { AGENT_PLACE, agentFolders, checkPlace } from './agent-place.ts';
import { GATEWAY_SOCKET, listenInGateway, makeGatewayFolder } from './gateway-folder.ts';

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cella-place-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('the place of an agent', () => {
  it('has the folders that are named, freed of links, each at its own path', () => {
    const folder = scratch();
    mkdirSync(join(folder, 'real'), { mode: 0o755 });
    symlinkSync(join(folder, 'real'), join(folder, 'link'));
    const found = agentFolders({ node: join(folder, 'link'), gateway: folder }, false);
    expect(found).toEqual([
      { path: join(folder, 'real'), at: AGENT_PLACE.node },
      { path: folder, at: AGENT_PLACE.gateway },
    ]);
  });

  it('refuses what is no folder, by its name', () => {
    const folder = scratch();
    writeFileSync(join(folder, 'file'), '');
    const refused = (message: string) => expect.objectContaining({ code: 'INVALID_OPTIONS', message });
    expect(() => agentFolders({ node: join(folder, 'gone') }, false)).toThrow(
      refused(`node: there is no folder ${folder}/gone.`),
    );
    expect(() => agentFolders({ node: folder, runner: join(folder, 'file') }, false)).toThrow(
      refused(`runner: ${folder}/file is not a folder.`),
    );
  });

  it('is covered by no folder of a policy', () => {
    expect(() => checkPlace([{ path: '/cella-data' }, { path: '/srv/cella' }])).not.toThrow();
    for (const path of ['/cella', '/cella/app/node', '/cella/other']) {
      expect(() => checkPlace([{ path }])).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
    }
    expect(() => checkPlace([{ path: '/srv', at: '/cella/gateway' }])).toThrow();
  });
});

describe('a gateway folder', () => {
  it('lies where nobody else can enter, holds a socket for all however long its path is, and loses it at the end', async () => {
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
