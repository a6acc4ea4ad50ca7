/** A sandbox environment on the host that these tests run on. */

import { describe, expect, it } from 'vitest';
import { environmentContract } from '../contract/environments.ts';
import { openEnvironment, python } from '../support/environments.ts';
import { scratchFolder } from '../support/session.ts';

describe('a sandbox environment', () => {
  environmentContract(async () => ({ kind: 'sandbox', folder: await scratchFolder() }));

  it('shows no file of the host where code that runs as its user has put a link in the place of the workspace', async () => {
    await using environment = await openEnvironment({ kind: 'sandbox', folder: await scratchFolder() });
    const swap = 'import os\nos.rename("/agent/workspace", "/agent/moved")\nos.symlink("/etc", "/agent/workspace")';
    // A root host keeps it from even that.
    const { exit } = await python(environment, swap);
    expect(exit.code === 0).toBe(process.getuid?.() !== 0);
    await expect(environment.readFile('passwd')).rejects.toMatchObject({ name: 'CellaError' });
    await expect(environment.writeFile('passwd/x', 'x')).rejects.toMatchObject({ name: 'CellaError' });
    expect(await environment.listFiles('').catch(() => [])).toEqual([]);
  });
});
