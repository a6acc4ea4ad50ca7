/**
 * Finds modules of this repository by their names alone, which say all. Node would look each of them up on the disk, and
 * vitest would tell its main process of every import, for a graph that only its watch mode reads.
 */

import { registerHooks } from 'node:module';

registerHooks({
  resolve(specifier, context, nextResolve) {
    const { parentURL } = context;
    const own = specifier.startsWith('.') && specifier.endsWith('.ts') && parentURL?.startsWith('file:');
    if (!own) return nextResolve(specifier, context);
    return { url: new URL(specifier, parentURL).href, format: 'module-typescript', shortCircuit: true };
  },
});
