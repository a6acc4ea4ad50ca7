import { describe, expect, it } from 'vitest';
import { suggest } from './suggest.ts';

describe('closest', () => {
  const names = ['py', 'sh', 'vars', 'undo', 'checkpoint', 'restore', 'history', 'help', 'quit'];

  it.each([
    ['chekpoint', 'checkpoint'],
    ['ckeckpiont', 'checkpoint'],
    ['check', 'checkpoint'],
    ['yp', 'py'],
    ['histroy', 'history'],
    ['Py', 'py'],
    ['quti', 'quit'],
  ])('%s is likely %s', (typed, meant) => expect(suggest(typed, names)).toBe(meant));

  it.each(['', 'deploy', 'xyz', '日本'])('%j is close to none', (typed) =>
    expect(suggest(typed, names)).toBeUndefined(),
  );
});
