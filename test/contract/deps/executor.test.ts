/** Namespaces without a session, for the Python of an executor. */

import { chmod, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ContainerExecutor } from '../../../src/environments/container/container-executor.ts';
import { removeFolder } from '../../../src/environments/files/remove-tree.ts';
import { InProcessExecutor } from '../../../src/environments/in-process/in-process-executor.ts';
import { openNamespaces, shutdown } from '../../../src/index.ts';
import { CellaError } from '../../../src/protocol/errors.ts';
import { alpine, pyodide } from '../../support/packages/pythons.ts';
import { makeWheel } from '../../support/packages/wheels.ts';

afterEach(async () => {
  vi.restoreAllMocks();
  await shutdown();
});

async function place() {
  const folder = await mkdtemp(join(tmpdir(), 'cella-executor-'));
  onTestFinished(() => removeFolder(folder));
  await chmod(folder, 0o755);
  const wheels = join(folder, 'wheels');
  await makeWheel(wheels, 'tiny', { tag: 'cp312-cp312-musllinux_1_2_x86_64', files: { 'native.py': '' } });
  await makeWheel(wheels, 'tiny', { files: { 'pure.py': '' } });
  return { dataDir: join(folder, 'data'), packages: { wheelFolders: [wheels], noIndex: true } };
}

describe('deps without a session', () => {
  it('are for the Python of the executor, next to others in one data folder', async () => {
    const asked = vi.spyOn(ContainerExecutor.prototype, 'interpreter').mockResolvedValue(alpine);
    vi.spyOn(InProcessExecutor.prototype, 'interpreter').mockResolvedValue(pyodide);
    const options = await place();
    await using contained = await openNamespaces({ ...options, executor: 'container', image: 'alpine' });
    await using inProcess = await openNamespaces({ ...options, executor: 'in-process' });
    expect(asked).not.toHaveBeenCalled();
    expect(await contained.deps.add('tiny')).toMatchObject({ installed: ['tiny'], failed: [] });
    expect(await inProcess.deps.status()).toEqual({ requirements: ['tiny'], python: 'cp314-wasm32', installed: false });
    expect(await inProcess.deps.sync()).toMatchObject({ installed: ['tiny'], failed: [] });
    expect(await inProcess.deps.status()).toMatchObject({ installed: true });
    const packages = join(options.dataDir, 'packages');
    const files = async (tag: string) => (await readdir(join(packages, tag), { recursive: true })).join('\n');
    expect(await files('cp312-musl-x86_64')).toContain('native.py');
    expect(await files('cp314-wasm32')).toContain('pure.py');
  });

  it('are listed even if their Python does not answer, and the error says why', async () => {
    const down = new CellaError('ENGINE_UNREACHABLE', 'No engine answers.');
    vi.spyOn(ContainerExecutor.prototype, 'interpreter').mockRejectedValue(down);
    await using namespaces = await openNamespaces({ ...(await place()), executor: 'container' });
    expect(await namespaces.deps.list()).toEqual([]);
    await expect(namespaces.deps.add('tiny')).rejects.toBe(down);
    await expect(namespaces.deps.status()).rejects.toBe(down);
  });

  it.each([
    ['an image without containers', { image: 'alpine' }],
    ['an engine in WebAssembly', { executor: 'in-process', engine: 'unix:///x' }],
    ['a Python for a container', { executor: 'container', python: 'python3' }],
  ] as const)('refuse contradicting options: %s', async (_what, options) => {
    await expect(openNamespaces({ ...(await place()), ...options })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });
});
