/** Compiles src to dist with the local TypeScript, and bundles the runner and the command line, which starts in half the time from few files. `--if-stale` does nothing if dist is newer than its sources. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
/** The list of sources, to notice deleted ones. */
const stamp = join(dist, '.built');
/** The build goes here first, and replaces dist only when it is complete. */
const staging = join(root, '.cache', `build-${process.pid}`);

const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  .sort();
const settings = [
  'tsconfig.json',
  'tsconfig.build.json',
  'package.json',
  'scripts/build.mjs',
  'scripts/bundling/runner.mjs',
];
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

/** The files of src/lib that every command loads. */
const AT_START = ['deadline', 'process-end', 'suggest', 'values'];

/** Replaces the compiled main.js. Other packages are not bundled, and most load only when they are used. */
async function bundle() {
  // If packages are missing, the error names `npm ci`. If dist is up to date, no packages are needed.
  const { rolldown } = await import('rolldown');
  const { bundleRunner } = await import('./bundling/runner.mjs');
  for (const name of AT_START) {
    if (!existsSync(join(staging, 'lib', `${name}.js`)))
      fail(`src/lib/${name}.ts is missing: see AT_START in scripts/build.mjs.`);
  }
  const inside = (name) => /^(\.|\/|zod$|zod\/|commander$)/.test(name);
  const made = await rolldown({
    input: join(staging, 'main.js'),
    platform: 'node',
    external: (name) => !inside(name),
    // For example, a module that should load late and does not.
    onLog: (level, { message }) => level === 'warn' && fail(message),
  });
  // One file for small modules that most commands use, and another for those that every command loads.
  const groups = [
    { name: 'lib-start', test: new RegExp(`/build-\\d+/lib/(${AT_START.join('|')})\\.js$`), priority: 1 },
    { name: 'lib', test: /\/build-\d+\/lib\/(?!yaml-document)/ },
  ];
  await made.write({
    dir: staging,
    format: 'esm',
    chunkFileNames: 'bundle/[name]-[hash].js',
    codeSplitting: { groups },
  });
  await made.close();
  await bundleRunner(join(staging, 'runner', 'cella-runner.js'), join(staging, 'runner', 'cella-runner.mjs'));
}

if (process.argv.includes('--if-stale') && isFresh()) process.exit(0);
if (!existsSync(compiler)) fail('The build needs the packages of package.json, and they are not here. Run: npm ci');

const began = performance.now();
const begun = new Date();
const seconds = () => ((performance.now() - began) / 1000).toFixed(0);
const screen = process.stderr.isTTY;
const doing = `Building ${sources.length} files of src into dist`;
process.stderr.write(`${doing} …${screen ? '' : '\n'}`);
const progress = screen ? setInterval(() => process.stderr.write(`\r${doing} … ${seconds()} s`), 1000) : undefined;
const options = ['-p', join(root, 'tsconfig.build.json'), '--outDir', staging];
// Skips checking types that were just checked: that is more than half of the work.
if (process.argv.includes('--types-checked')) options.push('--noCheck');
const tsc = spawn(process.execPath, [compiler, ...options], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
let said = '';
for (const stream of [tsc.stdout, tsc.stderr]) {
  stream.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
}
// Stopping a build ends the compiler and leaves no files behind.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    tsc.kill(signal);
    fail('\nThe build was stopped.');
  });
}
const [status] = await once(tsc, 'close').catch((error) => fail(`\nThe compiler did not start: ${error.message}`));
if (said !== '') console.error(`${screen ? '\n' : ''}${said.trimEnd()}`);
if (status !== 0) fail('The build failed: the compiler names the places above.');
await bundle().catch((error) => fail(`\nIt could not be bundled: ${error.message}`));
clearInterval(progress);
writeFileSync(join(staging, '.built'), list);
// A source that changes during the build makes the result stale.
utimesSync(join(staging, '.built'), begun, begun);
rmSync(dist, { recursive: true, force: true });
renameSync(staging, dist);
if (screen) console.error(`\r\u001b[K${doing}: done in ${seconds()} s.`);
