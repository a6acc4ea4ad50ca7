/** `cella/client` as it is built: whatever its methods take and give has a name that a program can import. */

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';

const DIST = join(import.meta.dirname, '..', '..', '..', 'dist');
/** How it is made, and not what a caller holds. */
const OWN = [
  ...['ApiClient', 'Body', 'FileChangeKind', 'Me', 'ProcessEnd', 'ProcessResult', 'Routes', 'SessionApiClient'],
  'SessionQuery',
];

/** Of a file of declarations: whole statements that name another one. */
function namesIn(file: string, statement: 'import' | 'export') {
  const pattern = new RegExp(`^${statement} (?:type )?(\\{[^}]*\\}|\\*)(?: as \\w+)? from '(\\.[^']+)';`, 'gm');
  return [...readFileSync(file, 'utf8').matchAll(pattern)].map(([, names = '', from = '']) => ({
    names: names === '*' ? undefined : names.match(/\w+(?=\s*[,}])/g)?.filter((name) => name !== 'type'),
    file: join(dirname(file), from.replace(/\.ts$/, '.d.ts')),
  }));
}

/** Every name that a front has, by the file that declares it. */
function exportsOf(front: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  const add = (file: string, names: Iterable<string>) =>
    found.set(file, new Set([...(found.get(file) ?? []), ...names]));
  for (const { names, file } of namesIn(front, 'export')) {
    if (names) add(file, names);
    else {
      const declared = /^export (?:declare )?(?:interface|type|class|const|function) (\w+)/gm;
      add(
        file,
        [...readFileSync(file, 'utf8').matchAll(declared)].map(([, name = '']) => name),
      );
      for (const [inner, more] of exportsOf(file)) add(inner, more);
    }
  }
  return found;
}

it('exports every type that its own types are made of', () => {
  const exported = exportsOf(join(DIST, 'client', 'index.d.ts'));
  const names = new Set([...exported.values()].flatMap((each) => [...each]));
  expect(names).toContain('ClientSession');
  // Files of namespaces declare more than a client holds, and what it does is named in the front.
  const files = [...exported.keys()].filter((file) => !file.includes('/namespaces/'));
  const missing = files.flatMap((file) =>
    namesIn(file, 'import').flatMap((each) => (each.names ?? []).filter((name) => !names.has(name))),
  );
  expect([...new Set(missing)].filter((name) => !OWN.includes(name)).toSorted()).toEqual([]);
});
