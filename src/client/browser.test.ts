import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';

/** What a page loads with the client: everything that is imported for more than its types, and not only when needed. */
function loaded(file: string, seen = new Map<string, string[]>()): Map<string, string[]> {
  if (seen.has(file)) return seen;
  const imports = [...readFileSync(file, 'utf8').matchAll(/^(?:import|export) (?!type )[^;]*?from '([^']+)';/gms)];
  const names = imports.map(([, name = '']) => name);
  seen.set(file, names);
  for (const name of names) if (name.startsWith('.')) loaded(join(dirname(file), name), seen);
  return seen;
}

test('a browser can load the client: nothing of Node, and no package but zod', () => {
  const files = loaded(join(import.meta.dirname, 'index.ts'));
  expect(files.size).toBeGreaterThan(20);
  for (const file of files.keys()) expect(existsSync(file), file).toBe(true);
  const packages = new Set([...files.values()].flat().filter((name) => !name.startsWith('.')));
  expect([...packages]).toEqual(['zod']);
});
