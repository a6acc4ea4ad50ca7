/** Packages whose code would run while they are installed: it does not. */

import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openDeps, openPlace, type Place, pythonWith } from '../../support/packages/deps.ts';
import { makeWheel } from '../../support/packages/wheels.ts';

/** A file that the installer's user could make too, and Python code that makes it. */
async function makeMark(place: Place): Promise<{ mark: string; code: string }> {
  const open = join(place.folder, 'open');
  await mkdir(open);
  await chmod(open, 0o777);
  const mark = join(open, 'it-ran');
  return { mark, code: `open(${JSON.stringify(mark)}, 'w').close()` };
}

export function depsCode(): void {
  it('code in .pth files and in modules that Python loads by itself does not run on the host', async () => {
    const place = await openPlace();
    const { mark, code } = await makeMark(place);
    const files = { 'evil.pth': `import os; ${code}\n`, 'evil.py': `${code}\n`, 'sitecustomize.py': `${code}\n` };
    await makeWheel(place.wheels, 'evil', { files });
    const { deps, sets, context } = await openDeps({ place });
    const { installed, set } = await deps.add('evil', context);
    await deps.add('tiny-b', context);
    await deps.sync(context);
    expect(installed).toEqual(['evil']);
    expect(existsSync(mark)).toBe(false);
    // Where a kernel would take it, it does run: the file is one that could have.
    const path = join(await sets.folder(), set ?? '');
    await pythonWith(sets, set, `import site\nsite.addsitedir(${JSON.stringify(path)})`);
    expect(existsSync(mark)).toBe(true);
  });

  it.each(['setup.py', 'pyproject.toml'])(
    'a source package that a wheel names by its URL is not built: %s',
    async (kind) => {
      const place = await openPlace();
      const { mark, code } = await makeMark(place);
      const source = join(place.folder, 'evil-source');
      await mkdir(source);
      await writeFile(join(source, 'setup.py'), code);
      await writeFile(join(source, 'backend.py'), code);
      const backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n';
      if (kind === 'pyproject.toml') await writeFile(join(source, kind), backend);
      await makeWheel(place.wheels, 'names-source', { requires: [`evil-source @ file://${source}`] });
      const { deps, context } = await openDeps({ place });
      const { installed, failed } = await deps.add('names-source', context);
      expect(installed).toEqual([]);
      expect(failed[0]?.reason).toContain('would have to be built from source');
      expect(existsSync(mark)).toBe(false);
    },
  );
}
