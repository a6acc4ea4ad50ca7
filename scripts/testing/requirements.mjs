/** What the tests need beside npm's packages: found, or installed where this is root on Debian, or told. */

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { run } from './commands.mjs';

const modules = ['numpy', 'pandas', 'matplotlib', 'cloudpickle', 'ipykernel', 'jupyter_server', 'pip'];
const programs = { tmux: 'tmux', 'redis-server': 'redis-server', curl: 'curl', openssl: 'openssl' };
/** Programs that make and become the ordinary user, and that run containers; only root needs them. */
const rootPrograms = { setpriv: 'util-linux', useradd: 'passwd', dockerd: 'docker.io' };
/** What compiles a Python for musl, in test/support/docker/foreign; only root runs it, in a container. */
const compilers = { gcc: 'gcc', make: 'make', 'musl-gcc': 'musl-tools', xz: 'xz-utils', bzip2: 'bzip2' };
/** The other engine, and what an ordinary user needs to run it. */
const podman = { podman: 'podman', newuidmap: 'uidmap' };
/** The browser that pages are looked at with. */
const browser = { chromium: 'chromium' };

const probe = `
import importlib.util, json, sys
names = ${JSON.stringify(modules)}
missing = [name for name in names if importlib.util.find_spec(name) is None]
print(json.dumps({"recent": sys.version_info >= (3, 9), "version": sys.version.split()[0], "missing": missing}))
`;

export const isRoot = process.getuid?.() === 0;

export function findProgram(name) {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin', '/sbin'];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** Debian's package of a Python module. */
const packageOf = (name) => `python3-${name.replaceAll('_', '-')}`;

/** The Debian packages that are missing, and what no package can mend. */
function missing(python, { compiling, onPodman, browsing }) {
  const needed = {
    ...programs,
    ...(isRoot ? rootPrograms : {}),
    ...(isRoot && compiling ? compilers : {}),
    ...(onPodman ? podman : {}),
    ...(browsing ? browser : {}),
  };
  const packages = Object.keys(needed)
    .filter((name) => !findProgram(name))
    .map((name) => needed[name]);
  const check = spawnSync(python, ['-I', '-c', probe], { encoding: 'utf8' });
  if (check.status !== 0) {
    return { packages: ['python3', ...modules.map(packageOf), ...packages], problems: [] };
  }
  const found = JSON.parse(check.stdout);
  const problems = found.recent ? [] : [`${python} is Python ${found.version}; the tests need 3.9 or later`];
  if (python === '/usr/bin/python3') packages.push(...found.missing.map(packageOf));
  else problems.push(...found.missing.map((name) => `${python} has no module ${name}`));
  return { packages, problems };
}

async function install(packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const options = ['-y', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120'];
  const known = spawnSync('apt-get', ['install', '--simulate', ...options, ...packages], { env }).status === 0;
  console.error(`Installing with apt-get: ${packages.join(' ')}`);
  if (known && (await run('apt-get', ['install', ...options, ...packages], { env })) === 0) return;
  await run('apt-get', ['update'], { env });
  await run('apt-get', ['install', ...options, ...packages], { env });
}

/** Returns when everything is there; otherwise says what to install and ends the process with 1. */
export async function requireAll(python, { compiling = false, onPodman = false, browsing = false } = {}) {
  const asked = { compiling, onPodman, browsing };
  let { packages, problems } = missing(python, asked);
  if (packages.length > 0 && isRoot && findProgram('apt-get')) {
    await install(packages);
    ({ packages, problems } = missing(python, asked));
  }
  if (packages.length === 0 && problems.length === 0) return;
  for (const problem of problems) console.error(`${problem}.`);
  if (packages.length > 0) {
    console.error(`The tests need packages that are not installed (Debian's names): ${packages.join(' ')}`);
    console.error(`On Debian and Ubuntu: sudo apt-get install --no-install-recommends ${packages.join(' ')}`);
  }
  if (!existsSync(python)) console.error(`There is no ${python}: CELLA_PYTHON can name another Python.`);
  process.exit(1);
}
