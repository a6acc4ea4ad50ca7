/** The four namespaces of a storage without a kernel: to look at them and to change them. */

import { join } from 'node:path';
import { PackageSource, type PackageSourceOptions } from '../namespaces/deps/source.ts';
import { CellaError } from '../protocol/errors.ts';
import { PACKAGES_INSIDE } from '../protocol/policy.ts';
import type { Storage } from '../storage/contract.ts';
import type { NamespacesApi } from './api-namespaces.ts';
import { dataFolder } from './data-folder.ts';
import { Namespaces } from './namespaces.ts';
import { locatePython } from './python.ts';
import { storageFor } from './storages.ts';

export interface OpenNamespacesOptions {
  readonly dataDir?: string | undefined;
  /** In place of the one in the data folder. Whoever opened it closes it. */
  readonly storage?: Storage | undefined;
  readonly python?: string | undefined;
  readonly packages?: PackageSourceOptions | undefined;
  readonly toolFolders?: readonly string[] | undefined;
}

export type OpenedNamespaces = NamespacesApi & AsyncDisposable;

export async function openNamespaces(options: OpenNamespacesOptions = {}): Promise<OpenedNamespaces> {
  const dataDir = dataFolder(options.dataDir);
  const python = await locatePython(options.python);
  const namespaces = new Namespaces({
    borrowStorage: () => storageFor(options.storage, dataDir),
    python,
    readerPython: async () => python,
    packageFolder: { path: join(dataDir, 'packages'), inside: PACKAGES_INSIDE },
    packages: PackageSource.parse(options.packages ?? {}),
    allowRuntimeDeps: true,
    artifactLimitMb: 1_048_576,
    toolFolders: options.toolFolders ?? [],
    sandboxed: {
      run: async ({ argv }) => {
        throw new CellaError('TOOL_FAILED', `${argv[0]} runs in a sandbox, and there is none here: open a session.`);
      },
    },
    onPackages: () => {},
  });
  return Object.assign(namespaces, { [Symbol.asyncDispose]: () => namespaces.close() });
}
