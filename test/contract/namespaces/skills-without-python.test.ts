/** Skills on a machine without a Python: they are read, and refused, by the interpreter that Cella brings along. */

import { expect, it } from 'vitest';
import { openNamespaces } from '../../../src/index.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

it('parses skills in WebAssembly if the machine has no Python', { timeout: 120_000 }, async () => {
  const dataDir = await scratchFolder();
  await using namespaces = await openNamespaces({ dataDir, python: '/no/such/python' });
  const source = '"""Adds numbers."""\nasync def run(one: int, other: int = 2):\n    return one + other\n';
  expect(await namespaces.skills.create({ name: 'add', source })).toMatchObject({
    description: 'Adds numbers.',
    parameters: [{ name: 'one' }, { name: 'other' }],
  });
  await expect(namespaces.skills.create({ name: 'broken', source: 'async def run(:\n' })).rejects.toMatchObject({
    code: 'SKILL_INVALID',
    message: expect.stringContaining('line 1'),
  });
  expect((await namespaces.skills.list()).map(({ name }) => name)).toEqual(['add']);
});
