/** The machine that the tests run on: commands in process groups, required programs, a disk in memory, an ordinary user. */

import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { freemem } from 'node:os';
import { delimiter, join } from 'node:path';

const running = new Set();
const cleanups = [];
let stopping = false;

/** Resolves to the exit code, or never if this process is stopping. An end by signal counts as 143. */
export function run(command, args, options = {}) {
  if (stopping) return new Promise(() => {});
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options, detached: true });
  running.add(child);
  return new Promise((resolve) => {
    const end = (code) => {
      running.delete(child);
      if (!stopping) resolve(code);
    };
    child.once('error', (error) => {
      console.error(`${command} did not start: ${error.message}`);
      end(127);
    });
    child.once('close', (code) => end(code ?? 143));
  });
}

/** Cleanups that run when this process ends in any way, for example of folders. They are synchronous. */
export function atEnd(cleanup) {
  cleanups.push(cleanup);
}

function signalAll(signal) {
  for (const { pid } of running) {
    try {
      process.kill(-pid, signal);
    } catch {
      // The group is gone.
    }
  }
}

process.on('exit', () => {
  signalAll('SIGKILL');
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
});

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
]) {
  process.on(signal, () => {
    if (stopping) return signalAll('SIGKILL');
    stopping = true;
    console.error(`\nStopping on ${signal}; a second one stops at once.`);
    signalAll('SIGTERM');
    const deadline = Date.now() + 10_000;
    const timer = setInterval(() => {
      if (running.size > 0 && Date.now() < deadline) return;
      clearInterval(timer);
      process.exit(code);
    }, 50);
  });
}

const modules = ['numpy', 'pandas', 'matplotlib', 'cloudpickle', 'ipykernel', 'jupyter_server', 'pip'];
const programs = { tmux: 'tmux', 'redis-server': 'redis-server', curl: 'curl', openssl: 'openssl', pgrep: 'procps' };
/** Programs that create and switch to the ordinary user, and that run containers; only root needs them. */
const rootPrograms = { setpriv: 'util-linux', useradd: 'passwd', dockerd: 'docker.io' };
/** For compiling a Python for musl, in test/support/docker/foreign; only root runs it, in a container. */
const compilers = { gcc: 'gcc', make: 'make', 'musl-gcc': 'musl-tools', xz: 'xz-utils', bzip2: 'bzip2' };
/** Podman, and what an ordinary user needs to run it. */
const podman = { podman: 'podman', newuidmap: 'uidmap' };
/** The browser for the tests of pages. */
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

/** The missing Debian packages, and problems that no package fixes. */
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

const ENOUGH_BYTES = 8 * 2 ** 30;
/** In its own mount namespace, so that the disk is gone with the last process of the command. */
const MOUNTED = 'mount -t tmpfs -o mode=1777 tmpfs "$0" && exec "$@"';

/** The command with such a disk on the folder; unchanged if this machine cannot mount one. */
export function withMemoryDisk(folder, command, args) {
  const unshare = findProgram('unshare');
  if (!isRoot || !unshare || available() < ENOUGH_BYTES) return { command, args };
  const around = ['--mount', 'sh', '-c', MOUNTED, folder];
  if (spawnSync(unshare, [...around, 'true']).status !== 0) return { command, args };
  return { command: unshare, args: [...around, command, ...args] };
}

/** Also respects the memory limit of this process's control group. */
const available = () => Math.min(freemem(), process.availableMemory?.() ?? 0);

const userName = 'cella-test';
const copied = ['package.json', 'tsconfig.json', 'vitest.config.ts', 'bin', 'dist', 'python', 'src', 'test', 'bench'];
const alsoRead = ['README.md', 'docs'];

function must(command, args, options = {}) {
  const done = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (done.status === 0) return done.stdout.trim();
  throw new Error(`${command} ${args.join(' ')} failed: ${done.error?.message ?? done.stderr?.trim()}`);
}

function account(namespaces) {
  if (spawnSync('id', ['-u', userName]).status !== 0) {
    console.error(`Creating the system user ${userName}.`);
    must(findProgram('useradd') ?? 'useradd', ['--system', '--create-home', '--shell', '/bin/sh', userName]);
  }
  if (namespaces) giveIds();
  const home = must('getent', ['passwd', userName]).split(':')[5];
  return { uid: must('id', ['-u', userName]), gid: must('id', ['-g', userName]), home };
}

/** Subordinate user ids for its containers, which accounts other than system users have by default. */
function giveIds() {
  for (const kind of ['uid', 'gid']) {
    const lines = existsSync(`/etc/sub${kind}`)
      ? readFileSync(`/etc/sub${kind}`, 'utf8').split('\n').filter(Boolean)
      : [];
    if (lines.some((line) => line.startsWith(`${userName}:`))) continue;
    const first = Math.max(
      100_000,
      ...lines.map((line) => line.split(':')).map(([, from, count]) => Number(from) + Number(count)),
    );
    must(findProgram('usermod') ?? 'usermod', [`--add-sub${kind}s`, `${first}-${first + 65_535}`, userName]);
  }
}

/** A command as that user, with nothing of root's environment. */
function asUser({ uid, gid, home }, command, args, env = {}) {
  const become = [`--reuid=${uid}`, `--regid=${gid}`, '--init-groups', '--inh-caps=-all', command, ...args];
  const base = { HOME: home, USER: userName, LOGNAME: userName, SHELL: '/bin/sh', LANG: 'C.UTF-8' };
  return { command: findProgram('setpriv') ?? 'setpriv', args: become, env: { ...base, ...env } };
}

/** Makes every file below the folder readable for that user. Follows the links that npm made. */
function canRead(user, folder) {
  const test = asUser(user, 'find', ['-L', folder, '-maxdepth', '2', '!', '-readable'], { PATH: '/usr/bin:/bin' });
  const done = spawnSync(test.command, test.args, { env: test.env, encoding: 'utf8', cwd: '/' });
  return done.status === 0 && done.stdout === '';
}

/** Creates the user and its folder; the folder is removed at the end. `command` returns a command as that user in it. */
export function prepareUser(root, { namespaces = false } = {}) {
  const user = account(namespaces);
  const folder = mkdtempSync('/var/tmp/cella-user-');
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const checkout = join(folder, 'cella');
  const scratch = join(folder, 'tmp');
  mkdirSync(checkout);
  mkdirSync(scratch);
  const parts = [...copied, ...alsoRead].map((part) => join(root, part)).filter((path) => existsSync(path));
  must('cp', ['-a', '--reflink=auto', ...parts, checkout]);
  // The agents that earlier suites have installed.
  const agents = join(root, '.cache', 'agents');
  if (existsSync(agents)) {
    mkdirSync(join(checkout, '.cache'));
    must('cp', ['-a', '--reflink=auto', agents, join(checkout, '.cache')]);
  }
  must('chown', ['-R', `${user.uid}:${user.gid}`, checkout, scratch]);
  must('chmod', ['-R', 'u+rwX,go+rX', checkout]);
  const modules = join(root, 'node_modules');
  if (canRead(user, modules)) {
    symlinkSync(modules, join(checkout, 'node_modules'));
  } else {
    console.error(`Copying node_modules to a folder that ${userName} can read …`);
    must('cp', ['-a', '--reflink=auto', modules, checkout]);
    must('chmod', ['-R', 'go+rX', join(checkout, 'node_modules')]);
  }
  return { name: userName, checkout, scratch, command: (command, args, env) => asUser(user, command, args, env) };
}
