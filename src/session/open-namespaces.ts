/** The four namespaces of a storage without a kernel: to look at them and to change them. */

import { join } from 'node:path';
import { probeInterpreter } from '../interpreter/find-python.ts';
import { PackageSource, type PackageSourceOptions } from '../namespaces/deps/package-source.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Interpreter } from '../protocol/interpreter.ts';
import { PACKAGES_INSIDE } from '../protocol/sandbox-policy.ts';
import type { Storage } from '../storage/contract.ts';
import type { NamespacesApi } from './api-namespaces.ts';
import { dataFolder } from './data-folder.ts';
import { borrowExecutor } from './executors.ts';
import { Namespaces } from './namespaces.ts';
import { type CheckedOptions, checkOptions, type SessionOptions } from './options.ts';
import { locatePython } from './python.ts';
import { recipeFor } from './recipes.ts';
import { storageFor } from './storages.ts';

export interface OpenNamespacesOptions {
  readonly dataDir?: string | undefined;
  /** In place of the one in the data folder. Whoever opened it closes it. */
  readonly storage?: Storage | undefined;
  readonly python?: string | undefined;
  /** Whose Python packages are installed for. */
  readonly executor?: SessionOptions['executor'] | undefined;
  readonly image?: string | undefined;
  readonly engine?: string | undefined;
  readonly packages?: PackageSourceOptions | undefined;
  readonly toolFolders?: readonly string[] | undefined;
  /** For tools that need some. */
  readonly credentials?: SessionOptions['credentials'] | undefined;
}

export type OpenedNamespaces = NamespacesApi & AsyncDisposable;

export async function openNamespaces(options: OpenNamespacesOptions = {}): Promise<OpenedNamespaces> {
  const dataDir = dataFolder(options.dataDir);
  const { python, executor, image, engine } = options;
  const checked = checkOptions({ python, executor, image, engine });
  const namespaces = new Namespaces({
    borrowStorage: () => storageFor(options.storage, dataDir),
    python: () => interpreterFor(checked, dataDir),
    readerPython: () => locatePython(python),
    packageFolder: { path: join(dataDir, 'packages'), inside: PACKAGES_INSIDE },
    packages: PackageSource.parse(options.packages ?? {}),
    allowRuntimeDeps: true,
    artifactLimitMb: 1_048_576,
    toolFolders: options.toolFolders ?? [],
    credentials: options.credentials,
    sandboxed: {
      run: async ({ argv }) => {
        throw new CellaError('TOOL_FAILED', `${argv[0]} runs in a sandbox, and there is none here: open a session.`);
      },
    },
    onPackages: () => {},
  });
  return Object.assign(namespaces, { [Symbol.asyncDispose]: () => namespaces.close() });
}

/** Asked when packages are first installed: to look at what is configured no Python is needed. */
async function interpreterFor(options: CheckedOptions, dataDir: string): Promise<Interpreter> {
  const { executor: kind, python } = options;
  if (kind === 'auto' || kind === 'subprocess') return await probeInterpreter(await locatePython(python));
  const { executor, giveBack } = borrowExecutor(await recipeFor(options, dataDir));
  try {
    return await executor.interpreter();
  } finally {
    giveBack();
  }
}
