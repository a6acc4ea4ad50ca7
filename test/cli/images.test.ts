/** `cella images`: through the real program and a real engine. */

import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Cella } from '../support/cli/command.ts';
import { canRunDocker } from '../support/docker/docker.ts';
import { sharedEngine } from '../support/docker/shared-docker.ts';

let cella: Cella;
beforeEach(() => {
  cella = new Cella();
});
afterEach(() => cella[Symbol.dispose]());

const run = (...words: string[]) => cella.run(['images', ...words]);

describe('cella images', () => {
  it('shows its usage', async () => {
    const { code, out } = await run('--help');
    expect(code).toBe(0);
    for (const word of ['build', 'list', 'delete', 'Examples:']) expect(out).toContain(word);
    const build = (await run('build', '--help')).out;
    for (const flag of ['--base', '--name', '--with', '--no-packages', '--python', '--engine', '--json']) {
      expect(build).toContain(flag);
    }
  });

  it('reports a missing engine and what to do, to people and programs', async () => {
    const told = await run('build', '--engine', '/nowhere/docker.sock');
    expect(told).toMatchObject({ code: 1, out: '' });
    expect(told.err).toMatch(/\/nowhere\/docker\.sock cannot be reached.*\nStart Docker .* or Podman/);
    const { code, out } = await run('list', '--engine', '/nowhere/docker.sock', '--json');
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ type: 'error', code: 'ENGINE_UNREACHABLE' });
  });

  it('uses the engine from DOCKER_HOST', async () => {
    const env = { DOCKER_HOST: 'ssh://elsewhere' };
    const { code, err } = await cella.run(['images', 'list'], { env });
    expect(code).toBe(1);
    expect(err).toContain('ssh:// cannot be used');
  });

  it.each([
    ['--python', ['--python', '/usr/bin/python3']],
    ['--with', ['--with', 'git']],
    ['--no-packages', ['--no-packages']],
  ])('refuses %s together with --base', async (flag, words) => {
    const { code, err } = await run('build', '--base', 'python:3.12', ...words);
    expect(code).toBe(2);
    expect(err).toContain(`${flag} cannot be used`);
  });
});

describe.skipIf(!canRunDocker)('cella images, with an engine', { timeout: 180_000 }, () => {
  let engine: string[];
  beforeAll(async () => {
    engine = ['--engine', await sharedEngine()];
  });

  it('builds an image of this machine’s Python and another from it, runs code, lists both and deletes them', async () => {
    const name = 'cella-e2e:one';
    const built = await run('build', '--name', name, '--no-packages', '--with', 'setpriv', '--json', ...engine);
    expect(built).toMatchObject({ code: 0, err: '' });
    const { image } = JSON.parse(built.out);
    expect(image).toMatchObject({ name, missing: [] });
    expect(image.python).toMatch(/^3\.\d+\.\d+$/);
    const second = await run('build', '--base', name, '--name', 'cella-e2e:two', ...engine);
    expect(second.code).toBe(0);
    const [made, next] = second.out.split('\n');
    expect(made).toMatch(/^Built cella-e2e:two: Python 3\.\d+\.\d+, \d+\.\d MB\.$/);
    expect(next).toBe('Run code in it with `cella run --executor container --image cella-e2e:two`.');
    expect(second.err).toMatch(/Inspecting cella-e2e:one\n(.*\n)*Saving it as cella-e2e:two\n/);
    const where = ['--executor', 'container', '--image', 'cella-e2e:two', ...engine];
    const ran = await cella.run(['run', ...where, '-c', 'import shutil; shutil.which("setpriv")']);
    expect(ran).toMatchObject({ code: 0, err: '' });
    // The default image has no such program.
    expect(ran.out).toContain('/setpriv');
    const listed = await run('list', ...engine);
    expect(listed.out).toMatch(/^NAME +PYTHON +SIZE +CREATED +ID\n/);
    expect(listed.out).toMatch(/^cella-e2e:one /m);
    for (const each of ['cella-e2e:two', name]) {
      expect((await run('delete', each, ...engine)).out).toBe(`Deleted ${each}.\n`);
    }
    const { images } = JSON.parse((await run('list', '--json', ...engine)).out);
    expect(images.filter((each: { name: string }) => each.name.startsWith('cella-e2e'))).toEqual([]);
  });

  it('stops on Ctrl-C, and creates nothing', async () => {
    const building = cella.start(['images', 'build', '--name', 'cella-e2e:stopped', '--no-packages', ...engine]);
    await vi.waitFor(() => expect(building.err).toContain('Packing'), { timeout: 30_000, interval: 5 });
    building.child.kill('SIGINT');
    expect(await building.ended).toBe(130);
    const { err } = await run('delete', 'cella-e2e:stopped', ...engine);
    expect(err).toContain('There is no image cella-e2e:stopped on this machine: `cella images list` shows');
  });

  it('reports a missing image', async () => {
    const { code, out } = await run('delete', 'cella-e2e:none', '--json', ...engine);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ code: 'IMAGE_NOT_FOUND' });
    expect((await run('build', '--base', 'cella-e2e:none', ...engine)).err).toContain('docker pull cella-e2e:none');
  });

  it('reports a program that this machine lacks', async () => {
    const { code, err } = await run('build', '--no-packages', '--with', 'no-such-program', ...engine);
    expect(code).toBe(2);
    expect(err).toContain('no-such-program');
  });
});
