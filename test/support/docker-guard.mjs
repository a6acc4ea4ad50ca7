/**
 * Runs one dockerd for the tests: `node docker-guard.mjs FOLDER`. Lines on stdin are `START` or the name of a signal.
 * When stdin closes, however its writer ended, everything that the engine has made goes away: its processes, its
 * containers, its mounts, its cgroups and its folder.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

const folder = process.argv[2];
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Nothing of the machine's network is touched: containers of the tests have none. */
const offline = ['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'];
const group = basename(folder);
const args = [
  ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--pidfile', join(folder, 'pid')],
  ...['-H', `unix://${join(folder, 'socket')}`, '--group', '0', '--config-file', join(folder, 'daemon.json')],
  ...['--exec-opt', 'native.cgroupdriver=cgroupfs', '--cgroup-parent', `/${group}`, '--shutdown-timeout', '2'],
  ...['--log-level', 'warn', ...offline],
];

let engine;

function start() {
  if (engine) return;
  // What a killed engine leaves here, where nobody takes note of ended processes, looks to the next one as if it ran.
  for (const name of ['pid', 'exec/containerd/containerd.pid']) rmSync(join(folder, name), { force: true });
  const log = process.env.CELLA_TEST_DOCKER_LOG ? 'inherit' : 'ignore';
  const mine = spawn('dockerd', args, { env: { PATH, HOME: folder }, stdio: ['ignore', log, log], detached: true });
  engine = mine;
  mine.on('error', (error) => console.log(`failed ${error.message}`));
  mine.on('exit', (code, signal) => {
    if (engine === mine) engine = undefined;
    console.log(`exited ${code ?? signal}`);
  });
}

async function endAll() {
  if (engine) {
    const gone = once(engine, 'exit');
    engine.kill('SIGCONT');
    engine.kill('SIGTERM');
    await Promise.race([gone, delay(15_000, undefined, { ref: false })]);
    engine?.kill('SIGKILL');
  }
  // Containers and their shims live on when an engine is killed.
  for (let round = 0; round < 50 && killLeft() > 0; round += 1) await delay(50);
  await unmount();
  for (let round = 0; round < 20 && !removeGroups(); round += 1) await delay(50);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

function killLeft() {
  const left = new Set([...processesOf(folder), ...groups().flatMap(membersOf)]);
  for (const pid of left) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  }
  return left.size;
}

function processesOf(text) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) =>
      read(`/proc/${pid}/cmdline`)
        .split('\0')
        .some((word) => word.includes(text)),
    )
    .filter((pid) =>
      /^(\S*\/)?(dockerd|containerd|containerd-shim\S*|runc|docker-\S+)\0/.test(read(`/proc/${pid}/cmdline`)),
    )
    .map(Number);
}

const membersOf = (place) => read(join(place, 'cgroup.procs')).split('\n').filter(Boolean).map(Number);

/** The cgroups of the containers and the one above them, deepest first. */
function groups() {
  const roots = ['/sys/fs/cgroup', ...list('/sys/fs/cgroup').map((name) => join('/sys/fs/cgroup', name))];
  return roots.map((root) => join(root, group)).flatMap((top) => [...below(top), top]);
}

function below(place) {
  return list(place).flatMap((name) => [...below(join(place, name)), join(place, name)]);
}

function list(place) {
  try {
    return readdirSync(place, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch {
    return []; // not there
  }
}

function removeGroups() {
  for (const place of groups()) {
    try {
      rmdirSync(place);
    } catch {
      // Not there, or a process in it is still ending.
    }
  }
  return groups().every((place) => !existsSync(place));
}

async function unmount() {
  const places = read('/proc/self/mounts')
    .split('\n')
    .map((line) => line.split(' ')[1])
    .filter((place) => place?.startsWith(`${folder}/`));
  for (const place of places.reverse()) {
    await once(spawn('umount', ['-l', place], { env: { PATH }, stdio: 'ignore' }), 'exit');
  }
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // gone meanwhile
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  if (line === 'START') start();
  else engine?.kill(`SIG${line}`);
});
lines.on('close', async () => {
  await endAll();
  process.exit(0);
});
// A terminal tells everybody at once; the writer of stdin says when it is time.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
