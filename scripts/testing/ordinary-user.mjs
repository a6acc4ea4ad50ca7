/** An ordinary user and a copy of the checkout that it can read, for the part of the suite that must not be root. */

import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { atEnd } from './commands.mjs';
import { findProgram } from './requirements.mjs';

const name = 'cella-test';
const copied = ['package.json', 'tsconfig.json', 'vitest.config.ts', 'bin', 'dist', 'python', 'src', 'test', 'bench'];
const alsoRead = ['README.md', 'docs'];

function must(command, args, options = {}) {
  const done = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (done.status === 0) return done.stdout.trim();
  throw new Error(`${command} ${args.join(' ')} failed: ${done.error?.message ?? done.stderr?.trim()}`);
}

function account(namespaces) {
  if (spawnSync('id', ['-u', name]).status !== 0) {
    console.error(`Creating the system user ${name}.`);
    must(findProgram('useradd') ?? 'useradd', ['--system', '--create-home', '--shell', '/bin/sh', name]);
  }
  if (namespaces) giveIds();
  const home = must('getent', ['passwd', name]).split(':')[5];
  return { uid: must('id', ['-u', name]), gid: must('id', ['-g', name]), home };
}

/** Users of its own inside its containers, as an account that is no system user has them from the start. */
function giveIds() {
  for (const kind of ['uid', 'gid']) {
    const lines = existsSync(`/etc/sub${kind}`)
      ? readFileSync(`/etc/sub${kind}`, 'utf8').split('\n').filter(Boolean)
      : [];
    if (lines.some((line) => line.startsWith(`${name}:`))) continue;
    const first = Math.max(
      100_000,
      ...lines.map((line) => line.split(':')).map(([, from, count]) => Number(from) + Number(count)),
    );
    must(findProgram('usermod') ?? 'usermod', [`--add-sub${kind}s`, `${first}-${first + 65_535}`, name]);
  }
}

/** A command as that user, with nothing of root's environment. */
function asUser({ uid, gid, home }, command, args, env = {}) {
  const become = [`--reuid=${uid}`, `--regid=${gid}`, '--init-groups', '--inh-caps=-all', command, ...args];
  const base = { HOME: home, USER: name, LOGNAME: name, SHELL: '/bin/sh', LANG: 'C.UTF-8' };
  return { command: findProgram('setpriv') ?? 'setpriv', args: become, env: { ...base, ...env } };
}

/** Every file below the folder, links followed to where npm put them, can be read by that user. */
function canRead(user, folder) {
  const test = asUser(user, 'find', ['-L', folder, '-maxdepth', '2', '!', '-readable'], { PATH: '/usr/bin:/bin' });
  const done = spawnSync(test.command, test.args, { env: test.env, encoding: 'utf8', cwd: '/' });
  return done.status === 0 && done.stdout === '';
}

/** Makes the user and its folder; the folder goes away at the end. `command` gives a command as that user in it. */
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
  // The agents that the suites before have brought.
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
    console.error(`Copying node_modules to a folder that ${name} can read …`);
    must('cp', ['-a', '--reflink=auto', modules, checkout]);
    must('chmod', ['-R', 'go+rX', join(checkout, 'node_modules')]);
  }
  return { name, checkout, scratch, command: (command, args, env) => asUser(user, command, args, env) };
}
