/** Checks that all Python files compile with the syntax of Python 3.9. Leaves no files behind. */

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const program = `
import ast, pathlib, sys
files = sorted(file for folder in ("python", "src") for file in pathlib.Path(folder).rglob("*.py"))
wrong = 0
for file in files:
    source = file.read_bytes()
    try:
        ast.parse(source, str(file), feature_version=(3, 9))
        compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        wrong += 1
        print("%s:%s: %s" % (file, error.lineno, error.msg), file=sys.stderr)
print("Checked %d Python files." % len(files))
sys.exit(1 if wrong or not files else 0)
`;

const python = process.env.CELLA_PYTHON ?? (existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3');
const root = fileURLToPath(new URL('..', import.meta.url));
const check = spawnSync(python, ['-I', '-B', '-c', program], { cwd: root, stdio: 'inherit' });
if (check.error) {
  console.error(
    `${python} did not start: ${check.error.message}. Install Python 3.9 or later, or name one with CELLA_PYTHON.`,
  );
}
process.exit(check.status ?? 1);
