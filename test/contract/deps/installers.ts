/** Which installer is used and what it is told: uv where there is one, else a pip, else an error that says so. */

import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { openDeps, openPlace, type Place, PYTHON } from '../../support/packages/deps.ts';

const run = promisify(execFile);

/** A program named uv that writes down how it was called, and installs an empty tiny-b. */
export async function recordingUv(place: Place): Promise<{ searchPath: string; record(): Promise<Recorded> }> {
  const open = join(place.folder, 'open');
  const searchPath = join(place.folder, 'bin');
  await mkdir(open);
  await chmod(open, 0o777);
  await mkdir(searchPath);
  const program = `#!${PYTHON} -I
import json, os, sys
args = sys.argv[1:]
if args == ["--version"]:
    print("uv 0.9.9 (recording)")
    sys.exit()
os.mkdir(args[args.index("--target") + 1] + "/tiny_b-2.1.0.dist-info")
requirements = open(args[args.index("-r") + 1]).read()
told = {"args": args, "env": dict(os.environ), "uid": os.getuid(), "groups": os.getgroups(), "requirements": requirements}
json.dump(told, open(${JSON.stringify(join(open, 'told'))}, "w"))
`;
  await writeFile(join(searchPath, 'uv'), program);
  await chmod(join(searchPath, 'uv'), 0o755);
  return { searchPath, record: async () => JSON.parse(await readFile(join(open, 'told'), 'utf8')) };
}

/** A package in a Python's own folder, of which a line runs whenever that Python starts: it writes down the command. */
async function recordingPth(place: Place, prefix: string): Promise<{ calls(): Promise<string[][]> }> {
  const { stdout } = await run(join(prefix, 'bin', 'python3'), ['-c', 'import site; print(site.getsitepackages()[0])']);
  const told = join(place.folder, 'starts');
  await writeFile(told, '');
  await chmod(told, 0o666);
  const line = `import json; open(${JSON.stringify(told)}, "a").write(json.dumps(open("/proc/self/cmdline").read().split("\\0")) + "\\n")\n`;
  await writeFile(join(stdout.trim(), 'told.pth'), line);
  const calls = async () => {
    const lines = (await readFile(told, 'utf8')).split('\n');
    return lines.filter((text) => text !== '').map((text): string[] => JSON.parse(text));
  };
  return { calls };
}

interface Recorded {
  readonly args: string[];
  readonly env: Record<string, string>;
  readonly uid: number;
  readonly groups: number[];
  readonly requirements: string;
}

export function depsInstallers(): void {
  it('uv is preferred, and gets options for wheels only, this Python, and the operator’s sources', async () => {
    const place = await openPlace();
    const { searchPath, record } = await recordingUv(place);
    const source = { index: 'http://joe:pw@127.0.0.1:1/simple/', wheelFolders: ['/a folder'] };
    const { deps, sets, context } = await openDeps({ place, searchPath, source });
    process.env.CELLA_TEST_SECRET = 'not for installers';
    const { installed, set } = await deps.add('tiny-b>=2', context).finally(() => delete process.env.CELLA_TEST_SECRET);
    expect(installed).toEqual(['tiny-b>=2']);
    expect((await sets.manifest(set ?? ''))?.installer).toBe('uv 0.9.9 (recording)');
    const { args, env, requirements } = await record();
    const file = args.at(-1) ?? '';
    expect(args).toEqual([
      ...['pip', 'install', '--no-config', '--no-cache', '--no-progress', '--color', 'never'],
      ...['--target', join(dirname(file), 'target'), '--python', PYTHON, '--no-python-downloads'],
      ...['--only-binary', ':all:', '--link-mode', 'copy', '--find-links', '/a folder', '-r', file],
    ]);
    expect(requirements).toBe('--index-url http://joe:pw@127.0.0.1:1/simple/\ntiny-b>=2\n');
    // LC_CTYPE is what Python sets for itself.
    const names = Object.keys(env).filter((name) => name !== 'LC_CTYPE');
    expect(names.toSorted()).toEqual(['HOME', 'LANG', 'PATH', 'PIP_CONFIG_FILE', 'TMPDIR']);
    expect(env.HOME).toBe(join(dirname(file), 'home'));
  });

  it('an installer that reports success but installs something else is not trusted', async () => {
    const place = await openPlace();
    const { searchPath } = await recordingUv(place);
    const { deps, context } = await openDeps({ place, searchPath });
    const { installed, failed } = await deps.add('tiny-a', context);
    expect(installed).toEqual([]);
    expect(failed[0]?.reason).toContain('reported success, but did not install tiny-a');
  });

  it('a Python without pip uses the pip of another, and without any says so', async () => {
    const place = await openPlace();
    const bare = join(place.folder, 'bare');
    await run(PYTHON, ['-m', 'venv', '--without-pip', bare]);
    const python = join(bare, 'bin', 'python3');
    const { calls } = await recordingPth(place, bare);
    const other = await openDeps({ place, python, searchPath: dirname(PYTHON) });
    expect(await other.deps.add('tiny-a', other.context)).toMatchObject({ installed: ['tiny-a'], failed: [] });
    // What lies beside pip in its Python is neither read nor run with it.
    expect(await calls()).not.toEqual([]);
    expect((await calls()).filter((words) => words.includes('install'))).toEqual([]);
    const none = await openDeps({ place, python, searchPath: '' });
    await expect(none.deps.add('tiny-b', none.context)).rejects.toMatchObject({ code: 'INSTALLER_MISSING' });
    expect(await none.deps.list()).toEqual([]);
  });

  it('a program that is not a Python is reported as such', async () => {
    const { deps, context } = await openDeps({ python: '/bin/true' });
    await expect(deps.add('tiny-b', context)).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
  });
}
