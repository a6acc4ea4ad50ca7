/** The four namespaces of a storage without a kernel: to look at them and to change them. */

import { join } from 'node:path';
import { PackageSource, type PackageSourceOptions } from '../namespaces/deps/source.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Interpreter } from '../protocol/interpreter.ts';
import { PACKAGES_INSIDE } from '../protocol/policy.ts';
import type { Storage } from '../storage/contract.ts';
import type { NamespacesApi } from './api-namespaces.ts';
import { dataFolder } from './data-folder.ts';
import { borrowExecutor } from './executors.ts';
import { firstUse } from './first-use.ts';
import { Namespaces } from './namespaces.ts';
import { checkOptions, type SessionOptions } from './options.ts';
import { locatePython } from './python.ts';
import { recipeFor } from './recipes.ts';
import { storageFor } from './storages.ts';

export interface OpenNamespacesOptions {
  readonly dataDir?: string | undefined;
  /** In place of the one in the data folder. Whoever opened it closes it. */
  readonly storage?: Storage | undefined;
  readonly python?: string | undefined;
  /** Whose Python packages are for, as in a session's options. */
  readonly executor?: SessionOptions['executor'];
  readonly image?: string | undefined;
  readonly engine?: string | undefined;
  readonly packages?: PackageSourceOptions | undefined;
  readonly toolFolders?: readonly string[] | undefined;
}

export type OpenedNamespaces = NamespacesApi & AsyncDisposable;

export async function openNamespaces(options: OpenNamespacesOptions = {}): Promise<OpenedNamespaces> {
  const dataDir = dataFolder(options.dataDir);
  const { python, end } = await pythonOf(options, dataDir);
  const namespaces = new Namespaces({
    borrowStorage: () => storageFor(options.storage, dataDir),
    python,
    readerPython: () => locatePython(options.python),
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
  const close = async () => {
    await namespaces.close();
    end();
  };
  return Object.assign(namespaces, { [Symbol.asyncDispose]: close });
}

interface KernelPython {
  readonly python: string | (() => Promise<Interpreter>);
  end(): void;
}

/** That of a container or in WebAssembly is asked for when packages are: nothing else here needs an executor. */
async function pythonOf(options: OpenNamespacesOptions, dataDir: string): Promise<KernelPython> {
  const { executor, image, engine, python } = options;
  const checked = checkOptions({ executor, image, engine, python });
  if (checked.executor === 'auto' || checked.executor === 'subprocess') {
    return { python: await locatePython(python), end: () => {} };
  }
  const ends: (() => void)[] = [];
  const borrow = firstUse(async () => {
    const borrowed = borrowExecutor(await recipeFor(checked, dataDir));
    ends.push(borrowed.giveBack);
    return borrowed.executor;
  });
  const end = () => {
    for (const giveBack of ends.splice(0)) giveBack();
  };
  return { python: async () => (await borrow()).interpreter(), end };
}
