/** How an engine of the tests' own is run as Debian's dockerd, with all that it keeps in one folder. */

import { basename, join } from 'node:path';

/** Nothing of the machine's network is touched: containers of the tests have none. */
const offline = ['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'];

export function dockerProgram(folder) {
  const group = basename(folder);
  const args = [
    ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--pidfile', join(folder, 'pid')],
    ...['-H', `unix://${join(folder, 'socket')}`, '--group', '0', '--config-file', join(folder, 'daemon.json')],
    ...['--exec-opt', 'native.cgroupdriver=cgroupfs', '--cgroup-parent', `/${group}`, '--shutdown-timeout', '2'],
    ...['--log-level', 'warn', ...offline],
  ];
  return {
    command: 'dockerd',
    args,
    env: {},
    /** What a killed engine leaves here, where nobody takes note of ended processes, looks to the next one as if it ran. */
    stale: ['pid', 'exec/containerd/containerd.pid'],
    /** Its own processes, by how their command lines begin. */
    processes: /^(\S*\/)?(dockerd|containerd|containerd-shim\S*|runc|docker-\S+)\0/,
    /** The cgroup above those of its containers. */
    group,
    /** What it is told to do before the rest goes. */
    ending: [],
    pidFile: undefined,
  };
}
