import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { agentKeyOfFolder } from './agent-key.ts';

const root = mkdtempSync(join(tmpdir(), 'cella-key-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function folder(...names: string[]): string {
  const path = join(root, ...names);
  mkdirSync(path, { recursive: true });
  return path;
}

describe('the agent key of a folder', () => {
  it('begins with the name of the folder, whatever is in it', () => {
    expect(agentKeyOfFolder(folder('shop'))).toMatch(/^shop-[0-9a-f]{8}$/);
    expect(agentKeyOfFolder(folder('größe & mehr'))).toMatch(/^größe-mehr-[0-9a-f]{8}$/);
    expect(agentKeyOfFolder(folder('!!'))).toMatch(/^--[0-9a-f]{8}$/);
    expect(agentKeyOfFolder(folder('x'.repeat(200)))).toMatch(/^x{40}-[0-9a-f]{8}$/);
    expect(agentKeyOfFolder('/')).toMatch(/^folder-[0-9a-f]{8}$/);
  });

  it('differs for folders of the same name', () => {
    expect(agentKeyOfFolder(folder('a', 'shop'))).not.toBe(agentKeyOfFolder(folder('b', 'shop')));
  });

  it('is the same through a link', () => {
    const path = folder('real');
    symlinkSync(path, join(root, 'link'));
    expect(agentKeyOfFolder(join(root, 'link'))).toBe(agentKeyOfFolder(path));
  });
});
