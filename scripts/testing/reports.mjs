/** Reads vitest's JSON reports, file by file, and counts the results. */

import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

/** The failures, short enough for the summary: a log of which only the end is kept still shows them. */
function describe(file, name, message = '') {
  const lines = message.split('\n').filter((line) => line.trim() !== '');
  return [`${file}: ${name}`, ...lines.slice(0, 6).map((line) => `  ${line.slice(0, 300)}`)];
}

function readFile(root, { name, message, status, startTime, endTime, assertionResults }) {
  const file = relative(root, name);
  const broken = assertionResults.filter((one) => one.status === 'failed');
  const failures = broken.map((one) => describe(file, one.fullName, one.failureMessages?.[0]));
  // A file that could not be loaded counts as one failure.
  if (status === 'failed' && broken.length === 0) failures.push(describe(file, 'the file itself', message));
  return {
    file,
    path: name,
    seconds: (endTime - startTime) / 1000,
    passed: assertionResults.filter((one) => one.status === 'passed').length,
    skipped: assertionResults.filter((one) => !['passed', 'failed'].includes(one.status)).map((one) => one.fullName),
    failures,
  };
}

/** One step of the run. A run that was cut short counts as one more failure. */
export function readReport(root, project, report, exitCode) {
  const { testResults } = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : { testResults: [] };
  const files = testResults.map((result) => readFile(root, result));
  const broke = exitCode !== 0 && files.every(({ failures }) => failures.length === 0);
  const failures = broke ? [describe(project, `vitest ended with ${exitCode}`, 'it says why above')] : [];
  return { project, files, failures, flaky: [] };
}

export const failedFiles = ({ files }) => files.filter(({ failures }) => failures.length > 0);

/** The step with the results of the second run of its failed files. Files that then passed are flaky. */
export function withSecondRun(step, second) {
  const again = new Map(second.files.map((one) => [one.file, one]));
  const files = step.files.map((one) => again.get(one.file) ?? one);
  const flaky = failedFiles(step)
    .filter(({ file }) => again.get(file)?.failures.length === 0)
    .flatMap(({ failures }) => failures);
  return { ...step, files, flaky: [...step.flaky, ...flaky], failures: [...step.failures, ...second.failures] };
}

export function countsOf({ files, failures }) {
  const sum = (count) => files.reduce((total, one) => total + count(one), 0);
  return { passed: sum((one) => one.passed), failed: sum((one) => one.failures.length) + failures.length };
}
