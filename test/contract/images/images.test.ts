/** Images that Cella makes, and what it finds out about any image. */

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { dataId, LABEL } from '../../../src/environments/container/container.ts';
import { connectEngine, type Engine } from '../../../src/environments/container/engine.ts';
import { imageFacts } from '../../../src/environments/container/image-python.ts';
import { buildFromBase, buildImage, listImages, removeImage } from '../../../src/environments/container/image-store.ts';
import { kernelPackage } from '../../../src/interpreter/package-file.ts';
import { newProcessIdentity } from '../../../src/lib/process-identity.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { anotherImageModule, bareImage, imageWith, python, runIn } from '../../support/docker/images.ts';
import { sharedEngine } from '../../support/docker/shared-docker.ts';

describe.skipIf(!canRunDocker)('images', { timeout: 180_000 }, () => {
  let engine: Engine;
  let bare: string;
  let data: string;

  beforeAll(async () => {
    engine = await connectEngine(await sharedEngine());
    bare = await bareImage(engine, 'cella-contract:bare');
  }, 180_000);

  beforeEach(() => {
    data = mkdtempSync(join(tmpdir(), 'cella-images-'));
  });

  afterEach(() => rmSync(data, { recursive: true, force: true }));

  describe('from the machine’s own Python', () => {
    it('has that Python with its standard library, a shell and common programs, and no base image', async () => {
      const program = 'import ctypes, hashlib, json, sqlite3, ssl, zlib, zoneinfo; print(6 * 7)';
      expect(await runIn(engine, bare, ['python3', '-c', program])).toBe('42\n');
      expect(await runIn(engine, bare, ['sh', '-c', 'echo one two | sed s/one/1/ | awk "{print \\$1}" | tr 1 2'])).toBe(
        '2\n',
      );
      const programs = 'for each in ls cat grep find xargs tar gzip sort head which; do which $each || exit 1; done';
      await runIn(engine, bare, ['sh', '-c', programs]);
      // Nothing lies under what was packed here.
      expect(await engine.docker.getImage(bare).history()).toHaveLength(1);
    });

    it('runs as an ordinary user, and nothing in the image gives more rights', async () => {
      expect(await runIn(engine, bare, ['id', '-un'])).toBe('cella\n');
      expect(await runIn(engine, bare, ['find', '/', '-xdev', '-perm', '/6000'])).toBe('');
    });

    it('has no users, keys and passwords of the machine', async () => {
      const found = await runIn(engine, bare, ['find', '/root', '/home', '/var', '/tmp', '/etc', '-xdev']);
      const paths = found.split('\n').filter(Boolean);
      expect(paths.filter((path) => /shadow|ssh|private|\.key$|sudoers|machine-id/.test(path))).toEqual([]);
      expect(paths.filter((path) => /^\/(root|home\/cella|var\/tmp|tmp)\//.test(path))).toEqual([]);
    });

    it('has time zones and certificates', async () => {
      const zone = 'import zoneinfo; print(zoneinfo.ZoneInfo("Europe/Berlin").key)';
      expect(await runIn(engine, bare, ['python3', '-c', zone])).toBe('Europe/Berlin\n');
      const certificates = 'import ssl; print(ssl.create_default_context().cert_store_stats()["x509_ca"] > 0)';
      expect(await runIn(engine, bare, ['python3', '-c', certificates])).toBe('True\n');
    });

    it('includes more programs, with the interpreter of a script', async () => {
      const options = { python, packages: false, version: 'test', name: 'cella-contract:more' };
      const { name } = await buildImage(engine, { ...options, programs: ['setpriv', '/usr/bin/ldd'] });
      expect(await runIn(engine, name, ['setpriv', '--version'])).toContain('setpriv');
      expect(await runIn(engine, name, ['ldd', '--version'])).toContain('ldd');
    });

    it('has the given name, and a label', async () => {
      const { name, id } = await buildImage(engine, {
        python,
        packages: false,
        version: '7.8.9',
        name: 'cella-contract',
      });
      expect(name).toBe('cella-contract:local');
      const { Config } = await engine.docker.getImage(name).inspect();
      expect(Config.Labels).toMatchObject({ 'cella.image': '1', 'cella.version': '7.8.9' });
      expect(await listImages(engine)).toContainEqual(expect.objectContaining({ name, id }));
      // By the name that it was given, with the tag or without.
      for (const called of [name, 'cella-contract']) {
        expect(await imageFacts(engine, called, data)).toMatchObject({ id });
      }
      await removeImage(engine, 'cella-contract');
      expect((await listImages(engine)).map((image) => image.name)).not.toContain(name);
    });

    it('reports progress, and stops on request', async () => {
      const stop = new AbortController();
      const told: string[] = [];
      const onProgress = (text: string) => {
        told.push(text);
        if (text.startsWith('Packing')) stop.abort();
      };
      const options = { python, packages: false, version: 'test', name: 'cella-contract:stopped', onProgress };
      await expect(buildImage(engine, { ...options, signal: stop.signal })).rejects.toThrow(/abort/i);
      expect(told.at(-1)).toMatch(/Packing \d+ files/);
      await expect(engine.docker.getImage('cella-contract:stopped').inspect()).rejects.toMatchObject({
        statusCode: 404,
      });
    });
  });

  describe('the facts about an image', () => {
    it('are the Python of the image, its path, and what fits it', async () => {
      const { id, ...facts } = await imageFacts(engine, bare, data);
      expect(id).toMatch(/^sha256:/);
      const version = await runIn(engine, bare, ['python3', '-c', 'import sys; print(*sys.version_info[:3])']);
      expect(facts.version.join(' ')).toBe(version.trim());
      expect(facts.interpreter.tag).toMatch(/^cp3\d+-\w+$/);
      expect(facts.interpreter.version).toEqual(facts.version.slice(0, 2));
      expect(facts.interpreter.executable).toBeUndefined();
      expect(facts.interpreter.platforms.at(0)).toMatch(/^manylinux_2_\d+_/);
      expect(facts.interpreter.platforms.at(-1)).toMatch(/^linux_/);
      expect(facts.path.split(':')).toContain('/usr/bin');
      expect(await runIn(engine, bare, [facts.python, '-c', 'print(1)'])).toBe('1\n');
    });

    it('include the kernel compiled for that Python, which loads it without the source', async () => {
      const { kernel } = await imageFacts(engine, bare, data);
      const sources = readdirSync(kernelPackage(), { recursive: true })
        .map(String)
        .filter((name) => name.endsWith('.py'));
      const found = readdirSync(kernel, { recursive: true }).map(String);
      expect(found.filter((name) => name.endsWith('.py')).sort()).toEqual(sources.sort());
      expect(found.filter((name) => name.endsWith('.pyc'))).toHaveLength(sources.length);
      // Hash-based, and not to be checked.
      const frames = found.find((name) => /^__pycache__\/frames\..*\.pyc$/.test(name)) ?? '';
      expect(readFileSync(join(kernel, frames)).readUInt32LE(4)).toBe(1);
      expect(statSync(kernel).mode & 0o777).toBe(0o755);
    });

    it('are determined once: another process finds them in the data folder', async () => {
      const first = await imageFacts(engine, bare, data);
      const again = await anotherImageModule();
      const createContainer = () => Promise.reject(new Error('it was asked again'));
      const docker = Object.create(engine.docker, { createContainer: { value: createContainer } });
      expect(await again.imageFacts({ ...engine, docker }, bare, data)).toEqual(first);
    });

    it('are the same for concurrent callers, and leave nothing incomplete', async () => {
      const modules = [await anotherImageModule(), await anotherImageModule(), await anotherImageModule()];
      const all = await Promise.all(modules.map((module) => module.imageFacts(engine, bare, data)));
      expect(new Set(all.map((facts) => facts.kernel)).size).toBe(1);
      expect(readdirSync(join(data, 'cache', 'kernel'))).toHaveLength(1);
    });

    it('are determined again for another image of the same name', async () => {
      const name = await imageWith(engine, bare, 'cella-contract-twice', { 'etc/old': '' });
      const first = await imageFacts(engine, name, data);
      await imageWith(engine, bare, 'cella-contract-twice', { 'etc/new': '' });
      const second = await imageFacts(engine, name, data);
      expect(second.id).not.toBe(first.id);
      expect(second.kernel).not.toBe(first.kernel);
    });

    it('keep Pythons with different C libraries apart', async () => {
      // A stand-in that costs no minutes: the same Python with the marks of musl. foreign.test.ts has a real one.
      const name = await imageWith(engine, bare, 'cella-contract-musl', await muslMarks(engine, bare));
      const { interpreter } = await imageFacts(engine, name, data);
      expect(interpreter.tag).toMatch(/^cp3\d+-musl-\w+$/);
      expect(interpreter.platforms.at(0)).toMatch(/^musllinux_1_2_/);
      expect(interpreter.platforms.some((each) => each.startsWith('manylinux'))).toBe(false);
    });
  });

  describe('from a base', () => {
    it('keeps the base unchanged, compiles its library, and has the given name', async () => {
      const cut = await imageWith(engine, bare, 'cella-contract-base', { 'srv/mine': 'yes' });
      const options = { name: 'cella-contract:from-base', version: 'test', dataDir: data, owner: newProcessIdentity() };
      const label = [`${LABEL.data}=${dataId(data)}`, `${LABEL.owner}=${options.owner}`];
      let during: Promise<unknown[]> | undefined;
      const onProgress = (text: string) => {
        // What a build that is killed leaves behind is found by these labels.
        if (text.startsWith('Saving')) during = engine.docker.listContainers({ all: true, filters: { label } });
      };
      const { name, python: version } = await buildFromBase(engine, cut, { ...options, onProgress });
      expect(await during).toHaveLength(1);
      expect(await engine.docker.listContainers({ all: true, filters: { label } })).toEqual([]);
      expect(await runIn(engine, name, ['cat', '/srv/mine'])).toBe('yes');
      expect(await runIn(engine, name, ['id', '-un'])).toBe('cella\n');
      const { Config } = await engine.docker.getImage(name).inspect();
      // Containers of the image are not taken for ones that were left behind.
      const labels = { 'cella.image': '1', 'cella.python': version, [LABEL.data]: '', [LABEL.owner]: '' };
      expect(Config).toMatchObject({ Cmd: ['python3'], Labels: labels });
      expect((await imageFacts(engine, name, data)).version.join('.')).toBe(version);
    });
  });
});

async function muslMarks(engine: Engine, image: string): Promise<Record<string, string>> {
  const where = 'import sysconfig, importlib.util as u; print(u.find_spec(sysconfig._get_sysconfigdata_name()).origin)';
  const path = (await runIn(engine, image, ['python3', '-c', where])).trim();
  const text = await runIn(engine, image, ['cat', path]);
  return {
    [path.slice(1)]: `${text}\nbuild_time_vars["HOST_GNU_TYPE"] = "x86_64-pc-linux-musl"\n`,
    'usr/lib/ld-musl-x86_64.so.1': '#!/bin/sh\necho "musl libc (x86_64)" >&2\necho "Version 1.2.4" >&2\nexit 1\n',
  };
}
