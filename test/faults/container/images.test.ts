/** Images and engines that are not what they should be: each gives one typed error, and leaves nothing behind. */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { connectEngine, type Engine } from '../../../src/environments/container/engine.ts';
import { imageFacts } from '../../../src/environments/container/image-python.ts';
import { buildFromBase, buildImage, removeImage } from '../../../src/environments/container/image-store.ts';
import { newProcessIdentity } from '../../../src/lib/process-identity.ts';
import { canRunDocker, DockerEngine, engineKind } from '../../support/docker/docker.ts';
import { anotherImageModule, bareImage, imageOf, imageWith, python } from '../../support/docker/images.ts';
import { sharedEngine } from '../../support/docker/shared-docker.ts';
import { openSession } from '../../support/kernels/session.ts';

const failing = (code: string, words: RegExp) => ({ code, message: expect.stringMatching(words) });

describe.skipIf(!canRunDocker)('an image', { timeout: 120_000 }, () => {
  let engine: Engine;
  let bare: string;
  let data: string;

  beforeAll(async () => {
    engine = await connectEngine(await sharedEngine());
    bare = await bareImage(engine, 'cella-faults:bare');
  }, 180_000);

  beforeEach(() => {
    data = mkdtempSync(join(tmpdir(), 'cella-image-faults-'));
  });

  afterEach(() => rmSync(data, { recursive: true, force: true }));

  /** The bare image with another program in the place of its Python. */
  async function pretending(name: string, script: string): Promise<string> {
    return await imageWith(engine, bare, `cella-faults-${name}`, { 'usr/local/sbin/python3': script });
  }

  const answering = (facts: object) => `#!/bin/sh\necho 'cella-image:${JSON.stringify(facts)}'\n`;
  const honest = {
    version: [3, 11, 2],
    executable: '/usr/bin/python3',
    tag: 'cp311-x86_64',
    machine: 'x86_64',
    libc: { name: 'glibc', version: [2, 36] },
    path: '/usr/bin',
    compiled: {},
  };
  const openOn = async (image: string) =>
    await openSession({ executor: 'container', engine: engine.address, dataDir: data, image });
  const containersOf = async (image: string) =>
    await engine.docker.listContainers({ all: true, filters: { ancestor: [image] } });

  it('that is missing is named, with the command that gets it', async () => {
    const told = failing('IMAGE_NOT_FOUND', /cella-nowhere:1 .*docker pull cella-nowhere:1/);
    await expect(imageFacts(engine, 'cella-nowhere:1', data)).rejects.toMatchObject(told);
    expect(readdirSync(data)).toEqual([]);
    await expect(openOn('cella-nowhere:1')).rejects.toMatchObject(told);
  });

  it.each(['../containers/json', 'a b', 'x?y=1', '-x', 'UPPER/../x'])(
    'with an invalid name is refused: %j',
    async (name) => {
      await expect(imageFacts(engine, name, data)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    },
  );

  it('without Python is reported in the words of the engine', async () => {
    const name = await imageOf(engine, 'cella-faults-empty', { 'etc/motd': 'nothing else' });
    await expect(openOn(name)).rejects.toMatchObject(
      failing('IMAGE_UNUSABLE', /no working Python.*python3.*\bpython\b/),
    );
    expect(await containersOf(name)).toEqual([]);
    expect(readdirSync(join(data, 'cache', 'kernel'))).toEqual([]);
  });

  it('for another machine is reported', async () => {
    const name = await imageOf(engine, 'cella-faults-foreign', { 'usr/bin/python3': '\u007fELF of no kind' });
    await expect(imageFacts(engine, name, data)).rejects.toMatchObject(failing('IMAGE_UNUSABLE', /exec format/));
  });

  it('whose Python is older than 3.9 is reported with its version', async () => {
    const name = await pretending('old', answering({ ...honest, version: [3, 8, 18] }));
    await expect(imageFacts(engine, name, data)).rejects.toMatchObject(
      failing('IMAGE_UNUSABLE', /is 3\.8\.18, but 3\.9/),
    );
  });

  it('whose Python prints garbage is reported with its output', async () => {
    const name = await pretending('garbage', '#!/bin/sh\necho hello world\n');
    await expect(imageFacts(engine, name, data)).rejects.toMatchObject(failing('IMAGE_UNUSABLE', /"hello world"/));
  });

  it('whose Python hangs is given up, and its container is removed', async () => {
    const name = await pretending('hanging', '#!/bin/sh\nexec sleep 1000\n');
    const asked = imageFacts(engine, name, data, { timeoutMs: 1000 });
    await expect(asked).rejects.toMatchObject(failing('IMAGE_UNUSABLE', /does not answer within 1 s/));
    expect(await containersOf(name)).toEqual([]);
  });

  it('whose Python prints endlessly is given up', async () => {
    const name = await pretending('endless', '#!/bin/sh\nexec yes cella\n');
    await expect(imageFacts(engine, name, data)).rejects.toMatchObject(failing('IMAGE_UNUSABLE', /output is too long/));
    expect(await containersOf(name)).toEqual([]);
  });

  it('is probed without network, rights or a writable folder', async () => {
    const look = [
      '#!/bin/sh',
      'touch /cella/kernel/mine /tmp/mine /mine 2>/dev/null; ls /sys/class/net /cella/kernel/mine /tmp /mine 2>/dev/null',
      'grep -h -E "^(CapEff|NoNewPrivs|Uid)" /proc/self/status',
    ];
    const name = await pretending(
      'looking',
      [...look, `echo "$(sh -c '${look.slice(1).join('; ')}' | tr '\\n' ' ')" >&2`].join('\n'),
    );
    const { message } = (await imageFacts(engine, name, data).catch((error: unknown) => error)) as Error;
    expect(message.replaceAll(/(\\t|\s)+/g, ' ')).toMatch(
      /"\/sys\/class\/net: lo \/tmp: Uid: 65534 65534 65534 65534 CapEff: 0000000000000000 NoNewPrivs: 1"/,
    );
  });

  it.each([
    ['a path outside', { '__init__.py': { at: '../../../../escaped.pyc', code: '' } }],
    ['an absolute path', { '__init__.py': { at: '/tmp/escaped.pyc', code: '' } }],
    ['another name', { '__init__.py': { at: '__pycache__/frames.cpython-311.pyc', code: '' } }],
    ['another source', { '../escaped.py': { at: '../__pycache__/escaped.cpython-311.pyc', code: '' } }],
    ['a source that we do not have', { 'mine.py': { at: '__pycache__/mine.cpython-311.pyc', code: '' } }],
  ])('that answers with %s gets nothing written', async (what, compiled) => {
    const name = await pretending(`hostile-${what.replaceAll(' ', '-')}`, answering({ ...honest, compiled }));
    await expect(imageFacts(engine, name, data)).rejects.toMatchObject({ code: 'IMAGE_UNUSABLE' });
    expect(readdirSync(join(data, 'cache', 'kernel'))).toEqual([]);
    expect(existsSync('/tmp/escaped.pyc')).toBe(false);
  });

  it.each([{ tag: '../../x' }, { tag: 'cp311-x86_64/..' }, { executable: 'python3' }, { machine: 'x/y' }])(
    'that gives its Python an invalid name is refused: %j',
    async (lie) => {
      const name = await pretending('lying', answering({ ...honest, ...lie }));
      await expect(imageFacts(engine, name, data)).rejects.toMatchObject({ code: 'IMAGE_UNUSABLE' });
    },
  );

  it('whose cached facts are damaged is probed again', async () => {
    const first = await imageFacts(engine, bare, data);
    const file = join(first.kernel, '..', 'facts.json');
    const whole = readFileSync(file, 'utf8');
    writeFileSync(file, whole.slice(0, 20));
    const again = await anotherImageModule();
    expect(await again.imageFacts(engine, bare, data)).toEqual(first);
    expect(readFileSync(file, 'utf8')).toBe(whole);
  });

  it('whose facts cannot be cached says where', async () => {
    writeFileSync(join(data, 'cache'), 'a file');
    await expect(imageFacts(engine, bare, data)).rejects.toMatchObject(failing('STORAGE_FAILED', /cache\/kernel/));
  });

  it('is not built from a base without Python', async () => {
    const name = await imageOf(engine, 'cella-faults-base', { 'etc/motd': '' });
    const making = buildFromBase(engine, name, {
      name: 'cella-faults:never',
      version: 'test',
      dataDir: data,
      owner: newProcessIdentity(),
    });
    await expect(making).rejects.toMatchObject({ code: 'IMAGE_UNUSABLE' });
    await expect(engine.docker.getImage('cella-faults:never').inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it('is not built from a missing base, and the base is not pulled', async () => {
    const making = buildFromBase(engine, 'python:3.12', {
      version: 'test',
      dataDir: data,
      owner: newProcessIdentity(),
    });
    await expect(making).rejects.toMatchObject(failing('IMAGE_NOT_FOUND', /docker pull python:3\.12/));
  });

  it('is not built with a program that this machine lacks', async () => {
    const options = { python, packages: false, version: 'test', name: 'cella-faults:lacking' };
    const making = buildImage(engine, { ...options, programs: ['no-such-program'] });
    await expect(making).rejects.toMatchObject(failing('INVALID_OPTIONS', /no no-such-program/));
    await expect(engine.docker.getImage('cella-faults:lacking').inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it.each(['Upper', 'a b', '../x', 'x:', '-x'])('cannot be named %j', async (name) => {
    await expect(buildImage(engine, { python, name, version: 'test' })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
    });
  });

  it('that Cella did not build is not deleted', async () => {
    const name = await imageOf(engine, 'cella-faults-others', { 'etc/motd': '' });
    await expect(removeImage(engine, name)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    await expect(removeImage(engine, 'cella-nowhere')).rejects.toMatchObject({ code: 'IMAGE_NOT_FOUND' });
  });
});

describe.skipIf(!canRunDocker)('an engine', { timeout: 120_000 }, () => {
  it('that does not answer is given up, and used again when it answers', async () => {
    await using server = await DockerEngine.start();
    await server.freeze();
    await expect(connectEngine(server.address)).rejects.toMatchObject(failing('ENGINE_UNREACHABLE', /did not answer/));
    server.thaw();
    expect(await connectEngine(server.address)).toMatchObject({ name: engineKind() });
  });

  it('that is stopped while an image is built is reported, and packing stops', async () => {
    await using server = await DockerEngine.start();
    const engine = await connectEngine(server.address);
    let killed: Promise<void> | undefined;
    const onProgress = (text: string) => {
      if (text.startsWith('Packing')) killed = server.kill();
    };
    const making = buildImage(engine, { python, version: 'test', onProgress });
    await expect(making).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await vi.waitFor(() => expect(packers()).toEqual([]), { timeout: 10_000 });
    await killed;
    await server.restart();
    await expect(imageFacts(engine, undefined, tmpdir())).rejects.toMatchObject(
      failing('IMAGE_NOT_FOUND', /cella images build/),
    );
  });
});

/** Processes that this one has started to pack an image. */
function packers(): string[] {
  const commands = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return commands.filter((pid) => {
    try {
      const parent = / \w (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/, ''))?.[1];
      return Number(parent) === process.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('cella_image');
    } catch {
      return false; // it has ended
    }
  });
}
