import { expect, test } from 'vitest';
import { describeUnknownVariable, unknownVariables } from './unknown-variables.ts';

test.each([
  ['CELLA_MAX_KERNEL', 'CELLA_MAX_KERNELS'],
  ['CELLA_MAXKERNELS', 'CELLA_MAX_KERNELS'],
  ['CELLA_DATA', 'CELLA_DATA_DIR'],
  ['CELLA_MASTERKEY', 'CELLA_MASTER_KEY'],
  ['CELLA_REDDIS', 'CELLA_REDIS'],
])('%s was most likely meant as %s', (name, meant) => {
  expect(unknownVariables([name])).toEqual([{ name, meant }]);
  expect(describeUnknownVariable({ name, meant: meant })).toBe(
    `${name} is no setting, and does nothing. Did you mean ${meant}?`,
  );
});

test('one that is like none is told as well, without what it holds', () => {
  expect(unknownVariables(['CELLA_FROBNICATE'])).toEqual([{ name: 'CELLA_FROBNICATE' }]);
  expect(describeUnknownVariable({ name: 'CELLA_\u001b[31m' })).toBe(
    'CELLA_?[31m is no setting, and does nothing. See docs/settings.md for all there are.',
  );
});

test('settings, secrets of tools, marks of programs and what others have named are none', () => {
  const names = ['CELLA_PORT', 'CELLA_CREDENTIAL_TICKETS', 'CELLA_ENVIRONMENT', 'CELLA_COMMAND', 'PATH', 'XCELLA_PORT'];
  expect(unknownVariables(names)).toEqual([]);
});
