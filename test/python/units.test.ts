import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { findPython } from '../../src/interpreter/find-python.ts';

const run = promisify(execFile);

test('the unit tests of the kernel’s Python pass', async () => {
  const python = await findPython(process.env.CELLA_PYTHON);
  const argv = ['-I', '-B', '-X', 'utf8', '-m', 'unittest', 'discover', '-s', 'python/tests', '-t', 'python'];
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  // The NumPy of some machines starts threads when it is imported, and the tests of fork safety would find them.
  const env = { ...process.env, OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1' };
  // A failed test rejects, with the report of unittest in the error.
  const { stderr } = await run(python, argv, { cwd, env, timeout: 240_000, encoding: 'utf8' });
  expect(stderr).toMatch(/Ran [1-9]\d* tests? in/);
  expect(stderr).toMatch(/^OK/m);
}, 300_000);
