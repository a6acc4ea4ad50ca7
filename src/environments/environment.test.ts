import { expect, it } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { type FileWrite, writeMissingFiles } from './environment.ts';

const files = { 'a/one': 'new', 'a/two': 'new', 'b/three': 'new' };

/** An environment with the file `a/one`. With `refuse`, listing the folder `a` throws that error. */
function environment(refuse?: CellaError) {
  const written: string[] = [];
  return {
    written,
    listFiles: async (folder: string) => {
      if (folder === 'a' && refuse) throw refuse;
      if (folder === 'a') return [{ path: 'one', type: 'file' as const, bytes: 1, modifiedAt: 0 }];
      throw new CellaError('NOT_FOUND', 'There is no such folder.');
    },
    writeFiles: async (some: readonly FileWrite[]) => {
      written.push(...some.map(({ path }) => path));
      return some.map(({ path }) => ({ path, ok: true as const }));
    },
  };
}

it('files of a profile are written where they are missing', async () => {
  const there = environment();
  expect(await writeMissingFiles(there, { files })).toMatchObject([{ path: 'a/two' }, { path: 'b/three' }]);
  expect(there.written).toEqual(['a/two', 'b/three']);
});

it.each(['TOO_LARGE', 'RATE_LIMITED', 'DEADLINE_EXCEEDED'] as const)(
  'files of a profile overwrite nothing in a folder that cannot be listed: %s',
  async (code) => {
    const error = new CellaError(code, 'It cannot be listed now.');
    const there = environment(error);
    expect(await writeMissingFiles(there, { files })).toEqual([
      { path: 'a/one', ok: false, error },
      { path: 'a/two', ok: false, error },
      { path: 'b/three', ok: true },
    ]);
    expect(there.written).toEqual(['b/three']);
  },
);
