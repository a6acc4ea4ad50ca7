/** Whose build a folder is: a process that lives, one that has ended, or one that cannot be seen. */

import { expect, it } from 'vitest';
import { lookAt, ownHolder } from './holder.ts';

it.runIf(process.platform === 'linux')('tells a process from others with its pid', () => {
  const own = ownHolder();
  const [pid = '', started = '', ...place] = own.split('-');
  expect(lookAt(`${own}.abcdef`)).toBe('alive');
  expect(lookAt([pid, Number(started) + 1, ...place].join('-'))).toBe('dead');
  expect(lookAt(['4194305', started, ...place].join('-'))).toBe('dead');
});

it('says nothing of other boots, other containers and other names', () => {
  const [pid, started, boot, namespace] = ownHolder().split('-');
  expect(lookAt([pid, started, 'abc', namespace].join('-'))).toBe('unseen');
  expect(lookAt([pid, started, boot, '1'].join('-'))).toBe('unseen');
  expect(lookAt('lost+found')).toBe('unseen');
});
