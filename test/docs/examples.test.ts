/** Every example of the README, and of the pages that have programs with their output, does what is written there. */

import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const pages = ['README.md', 'docs/library.md', 'docs/state.md', 'docs/internals/runner.md'] as const;
// Inside the package, so that `import … from 'cella'` finds it as a user's program would.
const folder = mkdtempSync(join(root, 'dist', 'readme-'));
const dataDir = mkdtempSync(join(tmpdir(), 'cella-readme-'));
const env = { ...process.env, CELLA_DATA_DIR: dataDir, NO_COLOR: '1' };

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  rmSync(dataDir, { recursive: true, force: true });
});

/** Programs that are followed by what they print. */
function programsOf(page: string): { code: string; output: string }[] {
  const text = readFileSync(join(root, page), 'utf8');
  const found = text.matchAll(/```ts\n((?:(?!```)[\s\S])*)```\s+```text\n([\s\S]*?)```/g);
  const programs = [...found].map(([, code = '', output = '']) => ({ code, output }));
  // Those of the client need a server: test/server/client/restarts.test.ts runs them.
  return programs.filter(({ code }) => !code.includes("'cella/client'"));
}

describe.each(pages)('%s', (page) => {
  const programs = programsOf(page);

  it('has programs with their output', () => expect(programs.length).toBeGreaterThan(0));

  it.each(programs.map((program, index) => ({ index, ...program })))(
    'program $index prints the output below it',
    async ({ index, code, output }) => {
      const file = join(folder, `${basename(page, '.md')}-${index}.ts`);
      writeFileSync(file, code);
      const { stdout } = await run(process.execPath, [file], { env, cwd: folder });
      expect(stdout).toBe(output);
    },
  );
});

describe('the README', () => {
  const [, console = ''] = /```console\n([\s\S]*?)```/.exec(readme) ?? [];
  const commands = console
    .split(/^\$ /m)
    .slice(1)
    .map((part) => ({ command: part.slice(0, part.indexOf('\n')), output: part.slice(part.indexOf('\n') + 1) }));

  it('has commands with their output', () => expect(commands.length).toBeGreaterThan(2));

  it.each(commands)('`$command` prints the output below it', async ({ command, output }) => {
    const script = `cella() { "${process.execPath}" "${join(root, 'bin', 'cella.cjs')}" "$@"; }; ${command}`;
    const { stdout } = await run('sh', ['-c', `(${script}) 2>&1`], { env, cwd: folder });
    expect(stdout).toBe(output);
  });
});
