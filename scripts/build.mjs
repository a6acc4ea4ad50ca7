/** Compiles src to dist with the local TypeScript. `--if-stale` does nothing where dist is newer than all it is made of. */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
/** Lists the sources, so that a deleted one is seen. */
const stamp = join(dist, '.built');
/** A build is made here and takes the place of dist only when it is whole. */
const staging = join(root, '.cache', `build-${process.pid}`);

const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  .sort();
const inputs = [...sources, join(root, 'tsconfig.json'), join(root, 'tsconfig.build.json'), join(root, 'package.json')];
const list = sources.map((file) => file.slice(root.length)).join('\n');

function isFresh() {
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== list) return false;
  const built = statSync(stamp).mtimeMs;
  return inputs.every((file) => statSync(file).mtimeMs < built);
}

function fail(message) {
  console.error(message);
  rmSync(staging, { recursive: true, force: true });
  process.exit(1);
}

if (process.argv.includes('--if-stale') && isFresh()) process.exit(0);
if (!existsSync(compiler)) fail('The build needs the packages of package.json, and they are not here. Run: npm ci');

console.error(`Building ${sources.length} files of src into dist …`);
const began = performance.now();
const options = ['-p', join(root, 'tsconfig.build.json'), '--outDir', staging];
const tsc = spawnSync(process.execPath, [compiler, ...options], { cwd: root, stdio: 'inherit' });
if (tsc.error) fail(`The compiler did not start: ${tsc.error.message}`);
if (tsc.status !== 0) fail('The build failed: the compiler names the places above.');
mkdirSync(staging, { recursive: true });
writeFileSync(join(staging, '.built'), list);
rmSync(dist, { recursive: true, force: true });
renameSync(staging, dist);
if (process.stderr.isTTY) console.error(`Built in ${((performance.now() - began) / 1000).toFixed(1)} s.`);
