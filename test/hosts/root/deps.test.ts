/** Deps on a root host: packages are never installed as root, whatever lies where. */

import { chmod, mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { isSandboxUid } from '../../../src/sandbox/sandbox-user.ts';
import { recordingUv } from '../../contract/deps/installers.ts';
import { openDeps, openPlace, PYTHON } from '../../support/packages/deps.ts';

it('the installer runs as its own user, without root’s groups', async () => {
  const place = await openPlace();
  const { searchPath, record } = await recordingUv(place);
  const { deps, context } = await openDeps({ place, searchPath });
  expect(await deps.add('tiny-b', context)).toMatchObject({ installed: ['tiny-b'] });
  const { uid, groups } = await record();
  expect(isSandboxUid(uid)).toBe(true);
  expect(groups).not.toContain(0);
});

it('a Python that only root can run is replaced by one that accepts the same packages, else refused', async () => {
  const place = await openPlace();
  const closed = join(place.folder, 'closed');
  await mkdir(closed, { mode: 0o700 });
  const python = join(closed, 'python3');
  await symlink(PYTHON, python);
  const refused = await openDeps({ place, python, searchPath: '' });
  await expect(refused.deps.add('tiny-b', refused.context)).rejects.toMatchObject({
    code: 'INSTALLER_MISSING',
    message: expect.stringContaining(`cannot run ${python}`),
  });
  const { deps, context } = await openDeps({ place, python, searchPath: '/usr/bin' });
  expect(await deps.add('tiny-b', context)).toMatchObject({ installed: ['tiny-b'] });
});

it('a uv that only root can run is skipped', async () => {
  const place = await openPlace();
  const { searchPath } = await recordingUv(place);
  await chmod(searchPath, 0o700);
  const { deps, sets, context } = await openDeps({ place, searchPath });
  const { set } = await deps.add('tiny-b', context);
  expect((await sets.manifest(set ?? ''))?.installer).toMatch(/^pip/);
});
