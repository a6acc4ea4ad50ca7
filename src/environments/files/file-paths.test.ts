import { expect, it } from 'vitest';
import { toFileError } from './file-paths.ts';

it.each(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'ESHUTDOWN', 'ESTALE', 'EMFILE', 'ENFILE'])(
  'a file that the disk refuses with %s is STORAGE_FAILED, with the reason',
  (code) => {
    const cause = Object.assign(new Error(`${code}: refused`), { code });
    expect(toFileError('notes/a.txt', cause)).toMatchObject({
      code: 'STORAGE_FAILED',
      message: expect.stringContaining(code),
      cause,
    });
  },
);

it('a path that code keeps renaming is busy, and can be tried again', () => {
  expect(toFileError('notes/a.txt', Object.assign(new Error('again'), { code: 'EAGAIN' }))).toMatchObject({
    code: 'RATE_LIMITED',
    details: { retryAfterMs: 1000 },
  });
});
