/** How an engine of the tests' own is run as Debian's Podman, with all that it keeps in one folder. */

import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What runs a container: the faster one where it is there. */
const runtime = ['crun', 'runc'].find((name) => ['/usr/bin', '/usr/sbin'].some((at) => existsSync(join(at, name))));

export function podmanProgram(folder) {
  const config = join(folder, 'containers.conf');
  const storage = join(folder, 'storage.conf');
  writeFileSync(config, settings(folder));
  const data = join(folder, 'data');
  const places = { graphroot: data, rootless_storage_path: data, runroot: join(folder, 'run') };
  writeFileSync(storage, table('storage', { driver: 'overlay', ...places }));
  return {
    command: 'podman',
    args: ['--log-level', 'warn', 'system', 'service', '--time=0', `unix://${join(folder, 'socket')}`],
    env: { CONTAINERS_CONF: config, CONTAINERS_STORAGE_CONF: storage, XDG_RUNTIME_DIR: folder },
    stale: ['socket'],
    processes: /^(\S*\/)?(podman|conmon|crun|runc)\0/,
    /** Its containers are in the same as those of the machine's own Podman, which nobody may tidy up. */
    group: undefined,
    /** No engine need run for it: each container is watched by a process of its own. */
    ending: [
      ['rm', '--all', '--force', '--time', '0'],
      // In a user's own there are files of users that this one is not, but inside.
      ...(process.getuid() === 0 ? [] : [['unshare', 'rm', '-rf', data]]),
    ],
    /** Of the process that holds a user's namespaces. */
    pidFile: join(folder, 'tmp', 'pause.pid'),
  };
}

/** Instead of the machine's own settings; locks are files, since those in memory are shared with the machine's Podman. */
function settings(folder) {
  const containers = table('containers', { log_driver: 'k8s-file' });
  const network = table('network', { network_config_dir: join(folder, 'networks') });
  const engine = table('engine', {
    ...{ cgroup_manager: 'cgroupfs', events_logger: 'file', lock_type: 'file', runtime },
    ...{ tmp_dir: `${folder}/tmp`, static_dir: `${folder}/static`, volume_path: `${folder}/volumes` },
  });
  return [containers, network, engine].join('\n');
}

function table(name, values) {
  const lines = Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`);
  return `[${name}]\n${lines.join('')}`;
}
