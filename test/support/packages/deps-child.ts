/** A process that adds packages: `deps-child.ts <sets' options as JSON> <store folder> <requirement>…`; prints the result. */

import { Deps } from '../../../src/namespaces/deps/deps-namespace.ts';
import { PackageSets } from '../../../src/namespaces/deps/package-sets.ts';
import { folderDeps } from './deps-store.ts';

const [options = '', store = '', ...requirements] = process.argv.slice(2);
const deps = new Deps({
  store: folderDeps(store),
  sets: new PackageSets(JSON.parse(options)),
  allowRuntime: true,
});
const context = { signal: new AbortController().signal, progress: () => {} };
console.log(JSON.stringify(await deps.add(requirements, context)));
