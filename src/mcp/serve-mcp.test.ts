import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { agentKeyOfFolder, reserveStdout } from './serve-mcp.ts';

const root = mkdtempSync(join(tmpdir(), 'cella-key-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function folder(...names: string[]): string {
  const path = join(root, ...names);
  mkdirSync(path, { recursive: true });
  return path;
}

describe('the agent key of a folder', () => {
  it('begins with the folder’s name, whatever characters it has', () => {
    expect(agentKeyOfFolder(folder('backend'))).toMatch(/^backend-[0-9a-f]{8}$/);
    expect(agentKeyOfFolder(folder('größe & mehr'))).toMatch(/^größe-mehr-[0-9a-f]{8}$/);
    expect(agentKeyOfFolder(folder('!!'))).toMatch(/^--[0-9a-f]{8}$/);
    expect(agentKeyOfFolder(folder('x'.repeat(200)))).toMatch(/^x{40}-[0-9a-f]{8}$/);
    expect(agentKeyOfFolder('/')).toMatch(/^folder-[0-9a-f]{8}$/);
  });

  it('differs for folders of the same name', () => {
    expect(agentKeyOfFolder(folder('a', 'backend'))).not.toBe(agentKeyOfFolder(folder('b', 'backend')));
  });

  it('is the same through a link', () => {
    const path = folder('real');
    symlinkSync(path, join(root, 'link'));
    expect(agentKeyOfFolder(join(root, 'link'))).toBe(agentKeyOfFolder(path));
  });
});

it('everything else that is written to stdout goes to stderr', async () => {
  const before = globalThis.console;
  onTestFinished(() => {
    globalThis.console = before;
  });
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const own = reserveStdout({ stdout, stderr });
  console.log('a stray line');
  stdout.write('another\n');
  own.write('{"jsonrpc":"2.0"}\n');
  expect(String(stdout.read())).toBe('{"jsonrpc":"2.0"}\n');
  expect(String(stderr.read())).toBe('a stray line\nanother\n');
});

it('a reader that disconnects ends the stream', async () => {
  const before = globalThis.console;
  onTestFinished(() => {
    globalThis.console = before;
  });
  const stdout = new PassThrough();
  const own = reserveStdout({ stdout, stderr: new PassThrough() });
  const failed = new Promise((resolve) => own.on('error', resolve));
  stdout.destroy(new Error('EPIPE'));
  expect(await failed).toMatchObject({ message: 'EPIPE' });
});
