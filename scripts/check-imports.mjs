/**
 * Which folder of src may import which. `npm run lint` fails if a file breaks this table.
 * Every folder may import `lib` and itself. A path names one file of a folder. Tests may import anything.
 * It also fails if two files have the same name or declare the same type or class (see NAME_FAMILIES), and if a file of src, bin
 * or python is longer than MAX_LINES.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, posix } from 'node:path';

const BELOW_SESSION = [
  'protocol',
  'settings',
  'storage',
  'sandbox',
  'interpreter',
  'kernel',
  'environments',
  'namespaces',
  'kernel-manager',
];
const BELOW_SERVER = [...BELOW_SESSION, 'session', 'agents', 'runner'];

const MAY_IMPORT = {
  lib: [],
  protocol: [],
  settings: ['protocol'],
  storage: ['protocol'],
  interpreter: ['protocol'],
  sandbox: ['interpreter', 'protocol'],
  kernel: ['protocol'],
  environments: ['kernel', 'sandbox', 'interpreter', 'protocol'],
  namespaces: ['storage', 'environments', 'sandbox', 'interpreter', 'protocol'],
  'kernel-manager': ['kernel', 'environments', 'storage', 'protocol'],
  session: BELOW_SESSION,
  agents: ['protocol'],
  // Bundled to one small file.
  runner: ['agents', 'protocol'],
  // Also runs in a browser.
  client: ['protocol', 'session/api.ts'],
  mcp: [...BELOW_SERVER, 'client'],
  // `Server.open` gives a client.
  server: [...BELOW_SERVER, 'mcp', 'client'],
  // Imports at its start. A command may import anything when it runs.
  cli: ['client', 'settings', 'protocol', 'session/api.ts'],
};
/** May import anything with `import()`, and types. */
const LAZY = ['cli'];
/** Folders whose files have the same names: implementations of one interface. */
const NAME_FAMILIES = /^src\/storage\/(?:file|redis)\//;

const MAX_LINES = 500;

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s(type\s)?[^;]*?from\s+'([^']+)'|(?:^|\n)import\s+'([^']+)'|(\bimport)\(\s*'([^']+)'\s*\)/g;

/** Types, classes and schemas: what begins with a capital letter. */
const EXPORTED =
  /^export (?:declare |abstract )*(?:class|interface|type|const|enum) ([A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)\b/gm;

const wrong = [];
const folders = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory());
for (const { name } of folders) {
  if (!(name in MAY_IMPORT)) wrong.push(`src/${name} has no row in scripts/check-imports.mjs.`);
}
for (const name of Object.keys(MAY_IMPORT)) {
  if (!folders.some((folder) => folder.name === name))
    wrong.push(`scripts/check-imports.mjs has a row for src/${name}, which is not there.`);
}
let count = 0;
for (const file of readdirSync('src', { recursive: true })
  .map((path) => join('src', path))
  .sort()) {
  if (!/^src\/.+\/.+(?<!\.test)\.ts$/.test(file)) continue;
  count++;
  const folder = file.split('/')[1] ?? '';
  const allowed = [...(MAY_IMPORT[folder] ?? []), 'lib', folder];
  for (const [, type, from, alone, lazy, later] of readFileSync(file, 'utf8').matchAll(IMPORT)) {
    const specifier = from ?? alone ?? later ?? '';
    if (!specifier.startsWith('.') || ((lazy || type) && LAZY.includes(folder))) continue;
    const path = posix.join(dirname(file), specifier).slice('src/'.length);
    if (allowed.includes(path.split('/')[0]) || allowed.includes(path)) continue;
    if (path.startsWith('..')) continue;
    wrong.push(`${file} imports src/${path}; ${folder} may import ${allowed.join(', ')}.`);
  }
}

const declared = new Map();
const declare = (what, name, file) => {
  const key = `${what} ${name}`;
  const other = declared.get(key);
  if (other !== undefined && !(NAME_FAMILIES.test(file) && NAME_FAMILIES.test(other))) {
    wrong.push(`${other} and ${file} share the ${key}: rename one of them.`);
  }
  declared.set(key, file);
};
for (const path of readdirSync('src', { recursive: true }).sort()) {
  if (!/(?<!\.test)\.ts$/.test(path)) continue;
  const file = join('src', path);
  if (basename(file) !== 'index.ts') declare('file name', basename(file), file);
  const names = new Set();
  for (const [, name] of readFileSync(file, 'utf8').matchAll(EXPORTED)) names.add(name);
  for (const name of names) declare('exported name', name, file);
}

const sources = ['src', 'bin', 'python'].flatMap((root) =>
  readdirSync(root, { recursive: true }).map((path) => join(root, path)),
);
for (const file of sources.filter((path) => /\.(?:ts|cjs|mjs|py)$/.test(path)).sort()) {
  const lines = readFileSync(file, 'utf8').split('\n').length - 1;
  if (lines > MAX_LINES) wrong.push(`${file} has ${lines} lines; split it below ${MAX_LINES}.`);
}
for (const line of wrong) console.error(line);
console.log(`Checked the imports of ${count} files.`);
process.exit(wrong.length > 0 ? 1 : 0);
