import { describe, expect, it } from 'vitest';
import { packageOptionsOf } from './package-flags.ts';

const index = 'https://packages.example/simple';

describe('packageOptionsOf', () => {
  it('says nothing where nothing is said', () => expect(packageOptionsOf({}, {})).toBeUndefined());

  it('lets flags win over variables', () => {
    const packages = { index: 'https://env.example/', wheelFolders: ['/env'], noIndex: true };
    expect(packageOptionsOf({ index, wheels: ['here'] }, { packages })).toEqual({
      index,
      extraIndexes: [],
      wheelFolders: [`${process.cwd()}/here`],
      noIndex: false,
    });
    expect(packageOptionsOf({}, { packages })).toEqual({ extraIndexes: [], wheelFolders: ['/env'], noIndex: true });
  });

  it('--no-index leaves out the index of the environment', () => {
    const packages = { index, extraIndexes: [index] };
    expect(packageOptionsOf({ index: false }, { packages })).toEqual({
      extraIndexes: [],
      wheelFolders: [],
      noIndex: true,
    });
    expect(() => packageOptionsOf({ index: false, extraIndex: [index] }, {})).toThrow('--no-index');
  });

  it.each(['nonsense', 'file:///x', 'https://user:s3cret@host/?q'])('refuses %s, and does not repeat it', (wrong) => {
    expect(() => packageOptionsOf({ index: wrong }, {})).toThrow('no http or https URL');
    expect(() => packageOptionsOf({ index: wrong }, {})).not.toThrow('s3cret');
  });
});
