/**
 * `npm test`: installs what the tests need, builds, runs every suite, and leaves nothing running. Arguments go to vitest
 * as filters: `npm test -- kernel`. The last line is `N passed, N failed`.
 */

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { atEnd, isRoot, prepareUser, requireAll, run, withMemoryDisk } from './testing/host.mjs';
import { leftovers, snapshot, startedIn } from './testing/leftovers.mjs';
import { countsOf, failedFiles, readReport, withSecondRun } from './testing/reports.mjs';
import {
  makeScratch,
  makeTemporary,
  node,
  ownVariables,
  python,
  root,
  scratchVariables,
  vitestArguments,
} from './testing/vitest.mjs';

const filters = process.argv.slice(2);
/** Runs only with `npm run test:all`. */
const longSuites = JSON.parse(readFileSync(join(root, 'test', 'long.json'), 'utf8'));
/** A suite that is named always runs, even a long one. */
const all = process.env.CELLA_TEST_ALL === '1' || filters.length > 0;
process.env.CELLA_TEST_ALL = all ? '1' : '0';
/** Whether a long suite will run. */
const willRun = (suite) => all && (filters.length === 0 || filters.some((word) => suite.includes(word)));
/** One suite compiles a Python, once per checkout. */
const compiles = willRun('test/contract/images/foreign.test.ts');
const onPodman =
  process.env.CELLA_TEST_ENGINE === 'podman' || longSuites.some((one) => /podman/.test(one) && willRun(one));
const browsing = longSuites.some((one) => /\/browser/.test(one) && willRun(one));
/** If more files fail, a busy machine is not the reason. */
const MOST_SECOND_RUNS = 3;
const steps = [];
/** Every process that tests start has one of these folders in its environment. */
const folders = [];

function countFiles(folder, except = []) {
  const path = join(root, folder);
  if (!existsSync(path)) return 0;
  const names = readdirSync(path, { recursive: true }).map(String);
  return names.filter((name) => name.endsWith('.test.ts') && !except.some((part) => name.startsWith(part))).length;
}

async function runHere(project, scratch) {
  console.log(`\n── ${project} tests, as ${userInfo().username}`);
  const report = join(scratch, `${project}.json`);
  const env = ownVariables(scratch);
  await inTwoRuns(root, project, report, (files) => {
    const { command, args } = withMemoryDisk(env.TMPDIR, node, vitestArguments(root, project, report, files));
    return run(command, args, { cwd: root, env });
  });
}

async function runAsOrdinaryUser() {
  const user = prepareUser(root, { namespaces: onPodman });
  watchOver(user.scratch);
  console.log(`\n── user tests, as ${user.name} in ${user.checkout}`);
  const bin = join(user.checkout, 'node_modules', '.bin');
  const report = join(user.scratch, 'user.json');
  const temporary = makeTemporary(user.scratch);
  const program = existsSync(join(bin, 'node')) ? join(bin, 'node') : process.execPath;
  const variables = {
    PATH: [bin, '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter),
    ...scratchVariables(user.scratch),
    CELLA_TEST_ALL: process.env.CELLA_TEST_ALL ?? '1',
    ...(process.env.CI ? { CI: process.env.CI } : {}),
  };
  await inTwoRuns(user.checkout, 'user', report, (files) => {
    const asUser = user.command(program, vitestArguments(user.checkout, 'user', report, files), variables);
    const { command, args } = withMemoryDisk(temporary, asUser.command, asUser.args);
    return run(command, args, { cwd: user.checkout, env: asUser.env });
  });
}

/**
 * Runs failed files once more, with nothing beside them. A file that then passes is reported
 * as FLAKY, and must be fixed like any other bug.
 */
async function inTwoRuns(checkout, project, report, start) {
  let step = readReport(checkout, project, report, await start(filters));
  const again = failedFiles(step);
  if (filters.length === 0 && again.length > 0 && again.length <= MOST_SECOND_RUNS) {
    console.log(`\n── once more: ${again.map(({ file }) => file).join(', ')}`);
    rmSync(report, { force: true });
    const code = await start(again.map(({ path }) => path));
    step = withSecondRun(step, readReport(checkout, project, report, code));
  }
  steps.push(step);
}

function summarise(notRun) {
  console.log('\n── summary');
  const files = steps.flatMap((step) => step.files).sort((a, b) => b.seconds - a.seconds);
  const slowest = files.slice(0, 12).map(({ file, seconds }) => `${file} ${seconds.toFixed(0)} s`);
  if (filters.length === 0 && slowest.length > 0) console.log(`slowest: ${slowest.join(', ')}`);
  for (const step of steps) {
    const { project } = step;
    const { passed, failed } = countsOf(step);
    const skipped = step.files.flatMap((one) => one.skipped);
    console.log(
      `${project.padEnd(8)} ${passed} passed, ${failed} failed${skipped.length ? `, ${skipped.length} skipped` : ''}`,
    );
    if (filters.length > 0) continue;
    for (const name of skipped) console.log(`  SKIPPED: ${name}`);
    if (passed + failed === 0) console.log(`  NOT RUN: there is no test in ${project}`);
  }
  for (const line of notRun) console.log(`NOT RUN: ${line}`);
  for (const step of steps) {
    for (const lines of step.flaky) console.log(`FLAKY, passed when run again: ${lines.join('\n')}`);
    const failures = [...step.files.flatMap((one) => one.failures), ...step.failures];
    for (const lines of failures) console.log(`FAILED: ${lines.join('\n')}`);
  }
  const counts = steps.map(countsOf);
  const passed = counts.reduce((sum, one) => sum + one.passed, 0);
  const failed = counts.reduce((sum, one) => sum + one.failed, 0);
  if (passed + failed === 0) console.log('No test ran.');
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

/** If the tests are stopped, ends their background processes before removing the folder. */
function watchOver(folder) {
  folders.push(folder);
  atEnd(() => {
    for (const { pid } of startedIn([folder])) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has already ended.
      }
    }
  });
}

async function main() {
  if (!existsSync(join(root, 'node_modules', 'vitest'))) {
    console.error('The packages of package.json are not here. Run: npm ci');
    return 1;
  }
  await requireAll(python, { compiling: compiles, onPodman, browsing });
  // Builds only what is stale if suites are named, because such runs are frequent. CI has checked the types before.
  const options = [
    ...(filters.length > 0 ? ['--if-stale'] : []),
    ...(process.env.CELLA_TYPES_CHECKED === '1' ? ['--types-checked'] : []),
  ];
  if ((await run(node, [join(root, 'scripts', 'build.mjs'), ...options])) !== 0) {
    steps.push({ project: 'build', files: [], failures: [['the build: it says why above']], flaky: [] });
    return summarise([]);
  }
  const before = snapshot();
  const scratch = makeScratch('test');
  watchOver(scratch);
  await runHere('unit', scratch);
  await runHere('system', scratch);
  const notRun = [];
  if (isRoot) {
    await runAsOrdinaryUser();
  } else {
    await runHere('user', scratch);
    const onlyRoot = countFiles('test/hosts/root');
    const asUser = countFiles('test', ['hosts/root/', 'hosts/user/', 'soak/']);
    notRun.push(
      `the part for a root host. ${onlyRoot} files of test/hosts/root did not run, and ${asUser} files of the`,
    );
    notRun.push(
      `system suite ran as ${userInfo().username}, not as root. Run npm test as root (in a container) for all.`,
    );
  }
  if (!all) {
    notRun.push(
      'what takes long. npm run test:all runs it too: on container and in-process what does not depend on the',
    );
    notRun.push(`executor, on Redis what does not depend on the storage, and ${longSuites.join(', ')}.`);
  }
  const left = await leftovers(before, folders);
  for (const { pid, command } of left) console.log(`LEFT RUNNING: ${pid} ${command.slice(0, 200)}`);
  if (left.length > 0) {
    const failures = left.map(({ pid, command }) => [`left running: ${pid} ${command.slice(0, 200)}`]);
    steps.push({ project: 'cleanup', files: [], failures, flaky: [] });
  }
  return summarise(notRun);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  console.log('0 passed, 1 failed');
  process.exitCode = 1;
}
