import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { HostFiles } from './host-files.ts';

const INSIDE = '/agent/workspace';
let top: string;
let files: HostFiles;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'cella-host-files-'));
  mkdirSync(join(top, 'x'));
  writeFileSync(join(top, 'x', 'file'), '');
  files = new HostFiles({ path: top, inside: INSIDE });
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** `l0` leads to `x` through this many links. The target of each ends with `step`, repeated. */
function chain(links: number, step: string, times: number): void {
  for (let number = 0; number < links; number++) {
    const next = number === links - 1 ? 'x' : `l${number + 1}`;
    symlinkSync(`${number === 0 ? `${INSIDE}/` : ''}${next}${step.repeat(times)}`, join(top, `l${number}`));
  }
}

it.each([['/.'], ['//'], ['/../x']])('links with too many %j are refused at once', async (step) => {
  chain(6, step, Math.floor(4000 / step.length));
  const begun = performance.now();
  await expect(files.list('l0', 10)).rejects.toMatchObject({ code: 'ELOOP' });
  await expect(files.read('l0/file')).rejects.toMatchObject({ code: 'ELOOP' });
  await expect(files.makeFolder('l0/new/folder')).rejects.toMatchObject({ code: 'ELOOP' });
  expect(performance.now() - begun).toBeLessThan(1000);
});

it('as many links as the system allows are followed, with many steps', async () => {
  chain(40, '/../x/.', 8);
  expect(await files.list('l0', 10)).toMatchObject({ files: [{ name: 'file' }] });
  await files.makeFolder(['l0', ...Array.from({ length: 63 }, () => 'deep')].join('/'));
  await expect(files.list('x/deep/deep', 10)).resolves.toMatchObject({ files: [{ name: 'deep' }] });
});

it('a dangling link cannot be created as a folder', async () => {
  symlinkSync('nowhere', join(top, 'relative'));
  symlinkSync(`${INSIDE}/nowhere`, join(top, 'absolute'));
  await expect(files.makeFolder('relative/new')).rejects.toMatchObject({ code: 'ENOENT' });
  await expect(files.makeFolder('absolute/new')).rejects.toMatchObject({ code: 'ENOENT' });
  expect(readdirSync(top)).toEqual(['absolute', 'relative', 'x']);
});
