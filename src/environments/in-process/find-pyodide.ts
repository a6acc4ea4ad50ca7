/** The installed pyodide package: where its files are, and its code, compiled once for all workers. */

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { memoize } from '../../lib/single-flight.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type CompiledCode, wasm } from './worker/emscripten.ts';

const Lock = z.object({ info: z.looseObject({ python: z.string(), abi_version: z.string() }) });

export interface Pyodide {
  /** The folder of its files, as a path that ends in a separator. */
  readonly folder: string;
  readonly version: string;
  /** Of Python. */
  readonly python: readonly [major: number, minor: number, patch: number];
  readonly lock: string;
  readonly wasm: CompiledCode;
}

export const findPyodide: () => Promise<Pyodide> = memoize(() =>
  readPyodide().catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CellaError('TEMPLATE_FAILED', `The package pyodide cannot be used: ${why}. Run: npm ci`, { cause });
  }),
);

async function readPyodide(): Promise<Pyodide> {
  const folder = fileURLToPath(new URL('./', import.meta.resolve('pyodide')));
  const [about, packages, code] = await Promise.all([
    readFile(`${folder}package.json`, 'utf8'),
    readFile(`${folder}pyodide-lock.json`, 'utf8'),
    readFile(`${folder}pyodide.asm.wasm`),
  ]);
  const { version } = z.object({ version: z.string() }).parse(JSON.parse(about));
  const { info } = Lock.parse(JSON.parse(packages));
  const [major = 3, minor = 0, patch = 0] = info.python.split('.').map(Number);
  const lock = JSON.stringify({ info, packages: {} });
  return { folder, version, python: [major, minor, patch], lock, wasm: await wasm.compile(code) };
}
