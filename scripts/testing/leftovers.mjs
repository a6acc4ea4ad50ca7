/** Finds processes that outlived the tests: kernels and container engines by their command lines, others by their environment. */

import { readdirSync, readFileSync } from 'node:fs';

/** A process by pid and start time, so that a pid used again is another process. */
function look(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    return { pid: Number(pid), parent: Number(fields[1]), key: `${pid}:${fields[19]}`, command };
  } catch {
    return undefined;
  }
}

function processes() {
  let names = [];
  try {
    names = readdirSync('/proc');
  } catch {
    // No /proc: kernels that could be left behind need Linux.
  }
  const all = names.filter((name) => /^\d+$/.test(name)).map(look);
  return new Map(all.filter((one) => one !== undefined).map((one) => [one.pid, one]));
}

const isKernel = ({ command }) => /^\S*(python|cella)\S* .*cella_kernel/.test(command);
/** dockerd, containerd and shims, Podman and its monitors, of the tests' own engines, whose folders have these names. */
const isEngine = ({ command }) => /^\S*(dockerd|containerd\S*|podman|conmon) .*\/cella-(docker|podman)-/.test(command);

export function snapshot() {
  return new Set([...processes().values()].filter((one) => isKernel(one) || isEngine(one)).map((one) => one.key));
}

/**
 * Kernels and engines that were not in the snapshot and whose host is gone. A kernel of another run has a host
 * that is alive; a leftover kernel was adopted by an ancestor of this process.
 */
function leftNow(before) {
  const all = processes();
  const adopters = new Set([0, 1, process.pid]);
  for (let one = all.get(process.pid); one; one = all.get(one.parent)) adopters.add(one.parent);
  return [...all.values()].filter((one) => {
    if (before.has(one.key)) return false;
    if (isEngine(one)) return !isWatched(one, all);
    if (!isKernel(one)) return false;
    let top = one;
    for (let up = all.get(top.parent); up && isKernel(up); up = all.get(up.parent)) top = up;
    return adopters.has(top.parent) || !all.has(top.parent);
  });
}

/** An engine of another active run has its guard as parent or sibling. */
function isWatched({ command }, all) {
  const folder = /\/cella-(docker|podman)-[A-Za-z0-9]+/.exec(command)?.[0] ?? '';
  return [...all.values()].some((one) => one.command.includes('docker-guard.mjs') && one.command.includes(folder));
}

/** All processes with one of these folders in their environment, for example a detached server. */
export function startedIn(folders) {
  return [...processes().values()].filter(({ pid }) => {
    let environment = '';
    try {
      environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
    } catch {
      // It has ended, or belongs to another user.
    }
    return folders.some((folder) => environment.includes(folder));
  });
}

/** The processes that still exist after `graceMs`. */
export async function leftovers(before, folders, graceMs = 20_000) {
  const deadline = Date.now() + graceMs;
  for (;;) {
    const known = new Map([...leftNow(before), ...startedIn(folders)].map((one) => [one.key, one]));
    const left = [...known.values()];
    if (left.length === 0 || Date.now() > deadline) return left;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
