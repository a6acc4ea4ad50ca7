/**
 * `npm test`: brings what the tests need, builds, runs every suite, and leaves nothing running. Arguments go to vitest
 * as filters: `npm test -- kernel`. The last line is `N passed, N failed`.
 */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { atEnd, run } from './testing/commands.mjs';
import { leftovers, snapshot } from './testing/leftovers.mjs';
import { prepareUser } from './testing/ordinary-user.mjs';
import { isRoot, requireAll } from './testing/requirements.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const filters = process.argv.slice(2);
const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
const ownNode = join(root, 'node_modules', '.bin', 'node');
const node = existsSync(ownNode) ? ownNode : process.execPath;
/** Left to `npm run test:all`. */
const longSuites = JSON.parse(readFileSync(join(root, 'test', 'long.json'), 'utf8'));
/** A suite that is named is run, however long it takes. */
const all = process.env.CELLA_TEST_ALL === '1' || filters.length > 0;
process.env.CELLA_TEST_ALL = all ? '1' : '0';
const steps = [];

function countFiles(folder, except = []) {
  const path = join(root, folder);
  if (!existsSync(path)) return 0;
  const names = readdirSync(path, { recursive: true }).map(String);
  return names.filter((name) => name.endsWith('.test.ts') && !except.some((part) => name.startsWith(part))).length;
}

/** What failed, short enough for the summary: a log that is cut to its end still tells it. */
function describe(file, name, message = '') {
  const lines = message.split('\n').filter((line) => line.trim() !== '');
  return [`${file}: ${name}`, ...lines.slice(0, 6).map((line) => `  ${line.slice(0, 300)}`)];
}

/** Adds up one vitest report. A file that could not be loaded, and a run that broke off, count as one failure each. */
function read(project, report, exitCode) {
  let passed = 0;
  let failed = 0;
  const skipped = [];
  const failures = [];
  const files = [];
  if (existsSync(report)) {
    const { testResults, numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, 'utf8'));
    passed = numPassedTests;
    failed = numFailedTests;
    for (const { name, message, status, startTime, endTime, assertionResults } of testResults) {
      const file = relative(root, name);
      const broken = assertionResults.filter((one) => one.status === 'failed');
      if (status === 'failed' && broken.length === 0) {
        failed += 1;
        failures.push(describe(file, 'the file itself', message));
      }
      for (const one of broken) failures.push(describe(file, one.fullName, one.failureMessages?.[0]));
      skipped.push(...assertionResults.filter((one) => !['passed', 'failed'].includes(one.status)));
      files.push({ file, seconds: (endTime - startTime) / 1000 });
    }
  }
  if (exitCode !== 0 && failed === 0) {
    failed = 1;
    failures.push(describe(project, `vitest ended with ${exitCode}`, 'it says why above'));
  }
  steps.push({ project, passed, failed, failures, files, skipped: skipped.map((one) => one.fullName) });
}

function vitest(checkout, project, report) {
  const program = join(checkout, 'node_modules', 'vitest', 'vitest.mjs');
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  return [
    program,
    'run',
    '--configLoader',
    'native',
    '--project',
    project,
    '--passWithNoTests',
    ...reporters,
    ...filters,
  ];
}

async function runHere(project, scratch) {
  console.log(`\n── ${project} tests, as ${userInfo().username}`);
  const report = join(scratch, `${project}.json`);
  const path = [dirname(node), process.env.PATH].join(delimiter);
  const folders = { TMPDIR: join(scratch, 'tmp'), CELLA_DATA_DIR: join(scratch, 'data') };
  const env = { ...process.env, PATH: path, CELLA_PYTHON: python, ...folders };
  read(project, report, await run(node, vitest(root, project, report), { cwd: root, env }));
}

async function runAsOrdinaryUser() {
  const user = prepareUser(root);
  console.log(`\n── user tests, as ${user.name} in ${user.checkout}`);
  const bin = join(user.checkout, 'node_modules', '.bin');
  const report = join(user.scratch, 'user.json');
  const { command, args, env } = user.command(
    existsSync(join(bin, 'node')) ? join(bin, 'node') : process.execPath,
    vitest(user.checkout, 'user', report),
    {
      PATH: [bin, '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter),
      TMPDIR: user.scratch,
      CELLA_PYTHON: python,
      CELLA_DATA_DIR: join(user.scratch, 'data'),
      CELLA_TEST_ALL: process.env.CELLA_TEST_ALL ?? '1',
      ...(process.env.CI ? { CI: process.env.CI } : {}),
    },
  );
  read('user', report, await run(command, args, { cwd: user.checkout, env }));
}

function summarise(notRun) {
  console.log('\n── summary');
  const files = steps.flatMap((step) => step.files ?? []).sort((a, b) => b.seconds - a.seconds);
  const slowest = files.slice(0, 12).map(({ file, seconds }) => `${file} ${seconds.toFixed(0)} s`);
  if (filters.length === 0 && slowest.length > 0) console.log(`slowest: ${slowest.join(', ')}`);
  for (const { project, passed, failed, skipped } of steps) {
    console.log(
      `${project.padEnd(8)} ${passed} passed, ${failed} failed${skipped.length ? `, ${skipped.length} skipped` : ''}`,
    );
    if (filters.length > 0) continue;
    for (const name of skipped) console.log(`  SKIPPED: ${name}`);
    if (passed + failed === 0) console.log(`  NOT RUN: there is no test in ${project}`);
  }
  for (const line of notRun) console.log(`NOT RUN: ${line}`);
  for (const [first, ...rest] of steps.flatMap((step) => step.failures ?? [])) {
    console.log([`FAILED: ${first}`, ...rest].join('\n'));
  }
  const passed = steps.reduce((sum, step) => sum + step.passed, 0);
  const failed = steps.reduce((sum, step) => sum + step.failed, 0);
  if (passed + failed === 0) console.log('No test ran.');
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

async function main() {
  if (!existsSync(join(root, 'node_modules', 'vitest'))) {
    console.error('The packages of package.json are not here. Run: npm ci');
    return 1;
  }
  await requireAll(python);
  if ((await run(node, [join(root, 'scripts', 'build.mjs')])) !== 0) {
    steps.push({ project: 'build', passed: 0, failed: 1, skipped: [] });
    return summarise([]);
  }
  const before = snapshot();
  const scratch = mkdtempSync(join(tmpdir(), 'cella-test-'));
  atEnd(() => rmSync(scratch, { recursive: true, force: true }));
  chmodSync(scratch, 0o711);
  mkdirSync(join(scratch, 'tmp'));
  chmodSync(join(scratch, 'tmp'), 0o1777);
  await runHere('unit', scratch);
  await runHere('system', scratch);
  const notRun = [];
  if (isRoot) {
    await runAsOrdinaryUser();
  } else {
    await runHere('user', scratch);
    const onlyRoot = countFiles('test/root');
    const asUser = countFiles('test', ['root/', 'user/', 'soak/']);
    notRun.push(`the part for a root host. ${onlyRoot} files of test/root did not run, and ${asUser} files of the`);
    notRun.push(
      `system suite ran as ${userInfo().username}, not as root. Run npm test as root (in a container) for all.`,
    );
  }
  if (!all) {
    notRun.push('what takes long. npm run test:all runs it too: on container and in-process what does not depend on');
    notRun.push(`the executor, and ${longSuites.join(', ')}.`);
  }
  const left = await leftovers(before);
  for (const { pid, command } of left) console.log(`LEFT RUNNING: ${pid} ${command.slice(0, 200)}`);
  if (left.length > 0) steps.push({ project: 'cleanup', passed: 0, failed: left.length, skipped: [] });
  return summarise(notRun);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  console.log('0 passed, 1 failed');
  process.exitCode = 1;
}
