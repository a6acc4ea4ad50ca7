/**
 * Runs one engine for the tests: `node docker-guard.mjs FOLDER docker|podman`. Lines on stdin are `START` or the name of a signal.
 * When stdin closes, however its writer ended, everything that the engine has made goes away: its processes, its
 * containers, its mounts, its cgroups and its folder.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { dockerProgram } from './docker-program.mjs';
import { podmanProgram } from './podman-program.mjs';

const folder = process.argv[2];
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const program = process.argv[3] === 'podman' ? podmanProgram(folder) : dockerProgram(folder);
const { group } = program;
const env = { PATH, HOME: folder, ...program.env };

let engine;

function start() {
  if (engine) return;
  for (const name of program.stale) rmSync(join(folder, name), { force: true });
  const log = process.env.CELLA_TEST_DOCKER_LOG ? 'inherit' : 'ignore';
  // Podman leaves a file where it runs when a container has no memory left.
  const mine = spawn(program.command, program.args, { cwd: folder, env, stdio: ['ignore', log, log], detached: true });
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
  for (const args of program.ending) {
    const told = spawn(program.command, args, { cwd: folder, env, stdio: 'ignore' });
    await once(told, 'close').catch(() => {}); // it is not installed, and nothing was started
  }
  const holder = Number(program.pidFile && read(program.pidFile));
  if (holder > 0) kill(holder);
  // Containers and their shims live on when an engine is killed.
  for (let round = 0; round < 50 && killLeft() > 0; round += 1) await delay(50);
  await unmount();
  for (let round = 0; round < 20 && !removeGroups(); round += 1) await delay(50);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

/** A signal is on its way for a moment, in which an engine still answers. */
async function whenHeld() {
  const tasks = `/proc/${engine?.pid}/task`;
  const moves = (task) => !/^T/.test(read(`${tasks}/${task}/stat`).replace(/^.*\) /s, ''));
  while (list(tasks).some(moves)) await delay(5);
}

function killLeft() {
  const left = new Set([...processesOf(folder), ...groups().flatMap(membersOf)]);
  for (const pid of left) kill(pid);
  return left.size;
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}

function processesOf(text) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) =>
      read(`/proc/${pid}/cmdline`)
        .split('\0')
        .some((word) => word.includes(text)),
    )
    .filter((pid) => program.processes.test(read(`/proc/${pid}/cmdline`)))
    .map(Number);
}

const membersOf = (place) => read(join(place, 'cgroup.procs')).split('\n').filter(Boolean).map(Number);

/** The cgroups of the containers and the one above them, deepest first. */
function groups() {
  if (group === undefined) return [];
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
  if (line === 'STOP') void whenHeld().then(() => console.log('held'));
});
lines.on('close', async () => {
  await endAll();
  process.exit(0);
});
// A terminal tells everybody at once; the writer of stdin says when it is time.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
