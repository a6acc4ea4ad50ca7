/** Compiles src to dist with the local TypeScript, and bundles the command line: it starts in half the time from few files. `--if-stale` does nothing where dist is newer than all it is made of. */

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
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
const settings = ['tsconfig.json', 'tsconfig.build.json', 'package.json', 'scripts/build.mjs'];
const inputs = [...sources, ...settings.map((name) => join(root, name))];
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

/** In place of the compiled main.js. The other packages load from where they are, most of them only when they are used. */
async function bundle() {
  const { rolldown } = await import('rolldown');
  const inside = (name) => /^(\.|\/|zod$|zod\/|commander$)/.test(name);
  const made = await rolldown({ input: join(staging, 'main.js'), platform: 'node', external: (name) => !inside(name) });
  await made.write({ dir: staging, format: 'esm', chunkFileNames: 'bundle/[name]-[hash].js' });
  await made.close();
}

if (process.argv.includes('--if-stale') && isFresh()) process.exit(0);
if (!existsSync(compiler)) fail('The build needs the packages of package.json, and they are not here. Run: npm ci');

console.error(`Building ${sources.length} files of src into dist …`);
const began = performance.now();
const options = ['-p', join(root, 'tsconfig.build.json'), '--outDir', staging];
const tsc = spawnSync(process.execPath, [compiler, ...options], { cwd: root, stdio: 'inherit' });
if (tsc.error) fail(`The compiler did not start: ${tsc.error.message}`);
if (tsc.status !== 0) fail('The build failed: the compiler names the places above.');
await bundle().catch((error) => fail(`The command line could not be bundled: ${error.message}`));
writeFileSync(join(staging, '.built'), list);
rmSync(dist, { recursive: true, force: true });
renameSync(staging, dist);
if (process.stderr.isTTY) console.error(`Built in ${((performance.now() - began) / 1000).toFixed(1)} s.`);
