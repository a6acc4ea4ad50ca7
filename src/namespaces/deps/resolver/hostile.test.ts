import { writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { makeWheel, type WheelOptions } from '../../../../test/support/packages/wheels.ts';
import { expectNoStall } from '../../../../test/support/servers/stalls.ts';
import { removeFolder } from '../../../environments/files/remove-tree.ts';
import { copyReadOnly } from '../install-workspace.ts';
import { PackageSource, type PackageSourceOptions, withoutSecrets } from '../package-source.ts';
import { installBuiltIn } from './install-wheels.ts';
import { parseFileName, parseIndexPage } from './package-index.ts';
import { parseMetadata, requirementsOf } from './pep508.ts';
import { markerEnvironment } from './python-target.ts';
import { CandidateSelector, explainUnmet } from './resolve.ts';
import { consoleScripts, writePrograms } from './wheel.ts';

const interpreter = { tag: 'cp314-wasm32', version: [3, 14], platforms: [] } as const;

async function scratch(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-hostile-'));
  onTestFinished(() => removeFolder(folder));
  return folder;
}

async function install(options: PackageSourceOptions, requirements = ['a']) {
  const said: string[] = [];
  const failure = await installBuiltIn(
    {
      requirements,
      interpreter,
      source: PackageSource.parse(options),
      timeoutMs: 60_000,
      folder: join(await scratch(), 'own'),
    },
    { signal: new AbortController().signal, progress: (text) => said.push(text) },
  );
  return { reason: failure?.reason, said };
}

async function fromFolder(wheels: Record<string, WheelOptions>) {
  const folder = await scratch();
  for (const [name, options] of Object.entries(wheels)) await makeWheel(folder, name, options);
  return await install({ wheelFolders: [folder], noIndex: true });
}

/** An index that answers every page with these names of files. */
async function fromIndex(filenames: readonly string[]) {
  const page = JSON.stringify({ files: filenames.map((filename) => ({ filename, url: `/files/${filename.length}` })) });
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/files/')) return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' }).end(page);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return await install({ index: `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple/` });
}

/** So much that whatever goes through it more than once for each of its characters does not end. */
const MUCH = 400_000;
const MB = 1024 * 1024;

describe('a hostile package does not block the host', () => {
  it('with blanks within a line of its metadata', async () => {
    const text = `Name: a\nVersion: 1\nSummary: x${' '.repeat(MUCH)}x\nRequires-Dist: b  \n`;
    expect(await parseMetadata(text)).toMatchObject({ name: 'a', requires: ['b'] });
  });

  it('with blanks within a line of its entry points', () => {
    const text = `[console_scripts]\nbad = a:b${' '.repeat(MUCH)}x\ngood = a:b [x]\n`;
    expect(consoleScripts(text)).toEqual([{ name: 'good', module: 'a', attribute: 'b' }]);
  });

  it('with very many files, while they are copied and removed', { timeout: 120_000 }, async () => {
    const folder = await scratch();
    await mkdir(join(folder, 'filled'));
    for (let at = 0; at < 20_000; at += 1) writeFileSync(join(folder, 'filled', `${at}.py`), '');
    await expectNoStall(async () => {
      await copyReadOnly(join(folder, 'filled'), join(folder, 'copy'));
      await removeFolder(join(folder, 'copy'));
    });
  });

  it('with entry points that fill the memory', async () => {
    const folder = await scratch();
    await mkdir(join(folder, 'a-1.dist-info'));
    await writeFile(join(folder, 'a-1.dist-info', 'entry_points.txt'), '');
    await truncate(join(folder, 'a-1.dist-info', 'entry_points.txt'), 1000 * MB);
    const before = process.resourceUsage().maxRSS;
    await writePrograms(folder);
    expect(process.resourceUsage().maxRSS - before).toBeLessThan((300 * MB) / 1024);
  });

  it('with a requirement that is longer than any', async () => {
    const { reason } = await fromFolder({ a: { requires: [`${'a.'.repeat(MUCH)}!`] } });
    expect(reason).toMatch(/^a 1\.0\.0 needs "a\.a\..*, which is not a valid requirement$/);
    expect(reason?.length).toBeLessThan(500);
  });

  it('with more extras than any package has', async () => {
    const extras = Array.from({ length: 240 }, (_, at) => `e${at}`);
    const halves = [extras.slice(0, 80), extras.slice(80, 160), extras.slice(160)];
    const requires = halves.map((some) => `b[${some.join(',')}]`);
    const { reason } = await fromFolder({ a: { requires }, b: {} });
    expect(reason).toContain('more than 100 extras');
  });

  it('with more conditions on one package than any set has', async () => {
    const conditions = Array.from({ length: 100 }, () => '>=1').join(',');
    const { reason } = await fromFolder({ a: { requires: Array.from({ length: 6 }, () => `b${conditions}`) }, b: {} });
    expect(reason).toContain('more than 500 conditions');
  });
});

describe('the event loop goes on', { timeout: 60_000 }, () => {
  const FILES = 100_000;
  const python = { tag: 'cp311', version: [3, 11], platforms: ['manylinux_2_17_x86_64'] } as const;
  const base = new URL('https://index.example/simple/a/');
  const filename = (at: number) => `a-1.${at >> 2}.${at & 3}-cp311-cp311-manylinux_2_17_x86_64.whl`;
  const hashes = { sha256: 'a'.repeat(64) };
  const listed = Array.from({ length: FILES }, (_, at) => ({ filename: filename(at), url: filename(at), hashes }));
  const pages = {
    JSON: ['application/json', JSON.stringify({ files: listed })],
    HTML: [
      'text/html',
      listed.map(({ url }) => `<a href="${url}" data-requires-python="&gt;=3">${url}</a>\n`).join(''),
    ],
    'tags that are none': ['text/html', '<a '.repeat(2_000_000)],
  } as const;

  it.each(Object.entries(pages))('while a page is read: %s', async (_what, [type, text]) => {
    await expectNoStall(async () => void (await parseIndexPage(text, type, base)));
  });

  it('while a version is chosen', async () => {
    const files = listed.flatMap(({ filename }) => {
      const parsed = parseFileName(filename, 'a');
      return parsed ? [{ ...parsed, filename, requiresPython: '>=3.8', from: 'folder', path: filename } as const] : [];
    });
    const chooser = new CandidateSelector(python);
    await expectNoStall(async () => void (await chooser.candidates(files, ['>=1.0', '!=1.5.*'])));
    const question = { name: 'a', conditions: ['==999'], files, where: 'here' };
    await expectNoStall(async () => void (await explainUnmet(question, python, chooser)));
  });

  it('while metadata is read, and its conditions are compared with many extras', async () => {
    const lines = Array.from({ length: 500_000 }, () => 'A:b\n').join('');
    const marker = Array.from({ length: 20 }, () => 'python_version > "3.8"').join(' and ');
    const needs = Array.from({ length: 300 }, () => `Requires-Dist: b; ${marker} and extra == "none"\n`).join('');
    const text = `Name: a\nVersion: 1\n${needs}${lines}`;
    await expectNoStall(async () => void (await parseMetadata(text)));
    const metadata = await parseMetadata(text);
    expect(metadata?.requires).toHaveLength(300);
    const extras = Array.from({ length: 100 }, (_, at) => `e${at}`);
    if (metadata) await expectNoStall(() => requirementsOf(metadata, extras, markerEnvironment(python), 'a'));
  });
});

describe('a hostile index cannot', () => {
  it('make the host multiply the tags of a wheel', async () => {
    const many = Array.from({ length: 2000 }, () => 'a').join('.');
    expect(parseFileName(`a-1-${many}-${many}-${many}.whl`, 'a')).toBeUndefined();
    const some = Array.from({ length: 20 }, () => 'a').join('.');
    expect(parseFileName(`a-1-${some}-${some}-${some}.whl`, 'a')).toBeUndefined();
    expect((await fromIndex([`a-1-${many}-${many}-${many}.whl`])).reason).toContain('there is no package a');
  });

  it("write to the reader's terminal by the name of a file", async () => {
    const { reason, said } = await fromIndex(['a-1-1\u001b]0;mine\u0007-py3-none-any.whl']);
    expect(`${reason}${said.join('')}`).not.toContain('\u001b');
  });

  it('block the host with text without a URL', () => {
    const source = PackageSource.parse({ index: 'https://user:hush@127.0.0.1/simple/' });
    const text = `${'a.'.repeat(MUCH)} https://user:hush@127.0.0.1/x`;
    expect(withoutSecrets(text, source)).toBe(`${'a.'.repeat(MUCH)} https://127.0.0.1/x`);
  });
});
