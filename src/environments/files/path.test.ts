import { expect, it } from 'vitest';
import { explained } from './path.ts';

it.each(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'ESHUTDOWN', 'ESTALE', 'EMFILE', 'ENFILE'])(
  'a file that the disk refuses with %s is STORAGE_FAILED, with the reason',
  (code) => {
    const cause = Object.assign(new Error(`${code}: refused`), { code });
    expect(explained('notes/a.txt', cause)).toMatchObject({
      code: 'STORAGE_FAILED',
      message: expect.stringContaining(code),
      cause,
    });
  },
);
