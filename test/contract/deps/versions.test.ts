/** Versions, conditions and markers mean what they mean to pip: each is asked of both. */

import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { compareVersions, parseVersion, satisfies } from '../../../src/namespaces/deps/resolver/pep440.ts';
import { parseMarker } from '../../../src/namespaces/deps/resolver/pep508.ts';
import { markerEnvironment } from '../../../src/namespaces/deps/resolver/python-target.ts';
import { PYTHON } from '../../support/packages/deps.ts';

const PROGRAM = `
import json, sys
from pip._vendor.packaging.version import Version
from pip._vendor.packaging.specifiers import SpecifierSet
from pip._vendor.packaging.markers import Marker
asked = json.load(sys.stdin)
def order(a, b):
    a, b = Version(a), Version(b)
    return (a > b) - (a < b)
print(json.dumps({
    "orders": [order(a, b) for a, b in asked["orders"]],
    "fits": [SpecifierSet(c).contains(v, prereleases=True) for v, c in asked["fits"]],
    "holds": [Marker(m).evaluate(asked["environment"]) for m in asked["holds"]],
}))
`;

const number = fc.nat({ max: 3 });
const release = fc.array(number, { minLength: 1, maxLength: 3 }).map((numbers) => numbers.join('.'));
const maybe = (text: fc.Arbitrary<string>) => fc.oneof({ weight: 3, arbitrary: fc.constant('') }, text);
const pre = fc.tuple(fc.constantFrom('a', 'b', 'rc'), number).map(([letter, at]) => `${letter}${at}`);
const post = number.map((at) => `.post${at}`);
const dev = number.map((at) => `.dev${at}`);
const epoch = fc.constantFrom('', '', '', '1!');
const local = fc.constantFrom('+a', '+1', '+a.1', '+1.a');
const open = fc.tuple(epoch, release, maybe(pre), maybe(post), maybe(dev)).map((parts) => parts.join(''));
const version = fc.tuple(open, maybe(local)).map((parts) => parts.join(''));
// pip has changed its mind on `==1.0.*` for a plain 1; with as many numbers as the pattern there is one answer.
const long = fc.array(number, { minLength: 3, maxLength: 3 }).map((numbers) => numbers.join('.'));
const longVersion = fc
  .tuple(epoch, long, maybe(pre), maybe(post), maybe(dev), maybe(local))
  .map((parts) => parts.join(''));
const condition = fc.oneof(
  fc.tuple(fc.constantFrom('>=', '<=', '<', '>'), open),
  fc.tuple(fc.constantFrom('==', '!='), version),
  fc.tuple(
    fc.constantFrom('==', '!='),
    fc.tuple(epoch, release).map(([era, text]) => `${era}${text}.*`),
  ),
  fc.tuple(
    fc.constant('~='),
    fc.tuple(epoch, number, release, maybe(pre), maybe(post)).map(([e, n, r, p, q]) => `${e}${n}.${r}${p}${q}`),
  ),
);
const conditions = fc
  .array(condition, { minLength: 1, maxLength: 2 })
  .map((all) => all.map((one) => one.join('')).join(','));
const comparison = fc
  .oneof(
    fc.tuple(
      fc.constantFrom('python_version', 'python_full_version'),
      fc.constantFrom('<', '<=', '==', '!=', '>', '>='),
      fc.constantFrom('2.7', '3.1', '3.9', '3.12', '3.12.4', '3.13', '3.12.*'),
    ),
    fc.tuple(
      fc.constantFrom('sys_platform', 'os_name', 'platform_machine'),
      fc.constantFrom('==', '!=', 'in', 'not in'),
      fc.constantFrom('linux', 'posix', 'x86_64', 'win32 linux'),
    ),
  )
  .filter(([, operator, value]) => !value.endsWith('*') || operator === '==' || operator === '!=')
  .map(([name, operator, value]) => `${name} ${operator} "${value}"`);
const marker = fc.letrec<{ marker: string }>((tie) => ({
  marker: fc.oneof(
    { maxDepth: 3 },
    comparison,
    fc.tuple(tie('marker'), fc.constantFrom('and', 'or'), tie('marker')).map((parts) => parts.join(' ')),
    tie('marker').map((inner) => `(${inner})`),
  ),
})).marker;

it('for thousands of them', () => {
  const orders = fc.sample(fc.tuple(version, version), 3000);
  const fits = fc.sample(fc.tuple(longVersion, conditions), 6000);
  const holds = fc.sample(marker, 1500);
  const python = { tag: 'cp312-x86_64', version: [3, 12], patch: 4, platforms: [] } as const;
  const environment = { ...markerEnvironment(python), extra: '' };
  const input = JSON.stringify({ orders, fits, holds, environment });
  const answer = JSON.parse(execFileSync(PYTHON, ['-I', '-c', PROGRAM], { input, encoding: 'utf8' }));
  const parsed = (text: string) => parseVersion(text) ?? expect.fail(`${text} is no version`);
  expect(orders.map(([one, other]) => [one, other, compareVersions(parsed(one), parsed(other))])).toEqual(
    orders.map((pair, at) => [...pair, answer.orders[at]]),
  );
  expect(fits.map(([one, all]) => [one, all, satisfies(parsed(one), all.split(','))])).toEqual(
    fits.map((pair, at) => [...pair, answer.fits[at]]),
  );
  expect(holds.map((text) => [text, parseMarker(text)?.(environment)])).toEqual(
    holds.map((text, at) => [text, answer.holds[at]]),
  );
});
