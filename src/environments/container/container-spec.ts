/** Turns an environment spec into the engine's create options, and checks its mounts. */

import { existsSync, realpathSync, statSync } from 'node:fs';
import { posix } from 'node:path';
import type { ContainerCreateOptions, MountSettings } from 'dockerode';
import type { EnvironmentSpec, Mount } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { KernelLimit } from '../../protocol/kernel-frames.ts';
import { checkFolderId } from '../../sandbox/named-folders.ts';
import { permits } from '../../sandbox/sandbox-user.ts';
import type { Engine, EngineIdentity } from './engine.ts';

/** Where Cella's own folders are mounted in a container. */
export const CONTAINER_PATHS = { kernel: '/cella/kernel', listener: '/cella/connection' } as const;

const SCRATCH = '/tmp';

/** The share of the scratch space that can be shared memory. */
const SHARED_MEMORY = 1 / 4;

/** Counts every process of the user, including those outside the container. A control group limits the container itself. */
const MOST_OF_A_USER = 32_768;

export interface ContainerSpec {
  readonly spec: EnvironmentSpec;
  /** The image id. A name could mean another image by now. */
  readonly image: string;
  /** The image's `VOLUME` paths. */
  readonly volumes: readonly string[];
  readonly python: string;
  /** The folder on the host with the kernel's code. */
  readonly kernel: string;
  /** The listener's folder on the host. */
  readonly listenerFolder: string;
  readonly preload: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly engine: Pick<Engine, 'name' | 'rootless'>;
}

export function containerCreateOptions(plan: ContainerSpec): ContainerCreateOptions {
  const { spec, listenerFolder } = plan;
  const { limits } = spec;
  const shared = Math.floor(limits.scratchBytes * SHARED_MEMORY);
  const memory = limits.memoryBytes + KernelLimit.supervisorMemoryBytes;
  const mounts: MountSettings[] = [
    bind({ path: plan.kernel, at: CONTAINER_PATHS.kernel }, true),
    bind({ path: listenerFolder, at: CONTAINER_PATHS.listener }, true),
    bind({ path: `${listenerFolder}/passwd`, at: '/etc/passwd' }, true),
    bind({ path: `${listenerFolder}/group`, at: '/etc/group' }, true),
    // Read-only folders first: a workspace inside one must stay writable.
    ...spec.readable.map((folder) => bind(folder, true)),
    ...outermost(spec.writable).map((folder) => bind(folder, false)),
  ];
  mounts.push(...closedVolumes(plan.engine, plan.volumes, [SCRATCH, ...mounts.map(({ Target }) => Target)]));
  return {
    Image: plan.image,
    Entrypoint: [plan.python, '-I', '-X', 'utf8', CONTAINER_PATHS.kernel],
    Cmd: ['container', JSON.stringify({ folder: CONTAINER_PATHS.listener, preload: plan.preload })],
    Env: Object.entries(plan.env).map(([name, value]) => `${name}=${value}`),
    Labels: { ...plan.labels },
    User: `${spec.uid}:${spec.gid}`,
    WorkingDir: '/',
    Hostname: spec.network === 'host' ? undefined : 'cella',
    // An image's own health check would run alongside the kernels.
    Healthcheck: { Test: ['NONE'] },
    // Pid 1 ends when its connection closes, and ignores other signals.
    StopSignal: 'SIGKILL',
    HostConfig: {
      Init: false,
      // A proxy enforces a list of hosts. The container reaches it through the listener's folder.
      NetworkMode: spec.network === 'host' ? 'host' : 'none',
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Mounts: mounts,
      // An image can print anything until its Python takes over, so the engine keeps only the end of the log.
      LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
      Tmpfs: { [SCRATCH]: `rw,exec,nosuid,nodev,mode=1777,size=${limits.scratchBytes - shared}` },
      ShmSize: shared,
      IpcMode: 'private',
      ...userNamespace(plan.engine),
      Memory: memory,
      MemorySwap: memory,
      PidsLimit: limits.processes,
      NanoCpus: limits.cpus === undefined ? undefined : Math.round(limits.cpus * 1e9),
      // Podman raises limits that are not set here, which an unprivileged user may not be allowed to do. Pid 1 lowers these and
      // other limits further.
      Ulimits: [
        { Name: 'core', Soft: 0, Hard: 0 },
        { Name: 'nofile', Soft: limits.openFiles, Hard: limits.openFiles },
        { Name: 'nproc', Soft: MOST_OF_A_USER, Hard: MOST_OF_A_USER },
      ],
    },
  };
}

/** Rootless Podman maps its user to root inside the container. `keep-id` gives the user the same uid inside as outside. */
function userNamespace({ name, rootless }: ContainerSpec['engine']): { UsernsMode?: string } {
  return name === 'podman' && rootless ? { UsernsMode: 'keep-id' } : {};
}

function bind({ path, at }: Mount, readOnly: boolean): MountSettings {
  // Not every engine can make nested mounts read-only, so nested mounts are left out.
  const alone = readOnly ? { BindOptions: { Propagation: 'rprivate' as const, NonRecursive: true } } : {};
  return { Type: 'bind', Source: path, Target: at ?? path, ReadOnly: readOnly, ...alone };
}

const READ_BITS = 5;
const WRITE_BITS = 7;

export function checkMounts(spec: EnvironmentSpec): void {
  for (const folder of [...spec.writable, ...spec.readable]) checkMountPath(folder);
  for (const folder of spec.writable) checkMountMode(folder, spec, WRITE_BITS, 'write to');
  for (const folder of spec.readable) checkMountMode(folder, spec, READ_BITS, 'read');
}

/** The path was resolved earlier, so a link in it is new, and an engine would follow it. */
function checkMountPath({ path, at, id }: Mount): void {
  // A folder that is mounted under another path is Cella's own, and code cannot change its parent folders.
  if (at !== undefined) return;
  if (!existsSync(path) || realpathSync.native(path) !== path) {
    throw new CellaError(
      'FOLDER_REPLACED',
      `The container cannot have ${path}: it is gone, or its path now contains a link.`,
    );
  }
  checkFolderId(path, id);
}

/**
 * Drops folders inside another writable folder: they are visible through it, and code could replace what their path leads to.
 */
export function outermost(folders: readonly Mount[]): Mount[] {
  const isWithin = (one: Mount, other: Mount) =>
    one.at === undefined && other.at === undefined && one.path.startsWith(`${other.path}/`);
  return folders.filter((one) => !folders.some((other) => isWithin(one, other)));
}

function checkMountMode({ path, owner }: Mount, spec: EnvironmentSpec, wanted: number, verb: string): void {
  // A folder without an owner belongs to the container, or was checked earlier.
  if (!owner) return;
  const [uid, gid] = owner;
  if (permits({ mode: statSync(path).mode, uid, gid }, spec, wanted)) return;
  const whose = `it belongs to ${uid}:${gid}, but the container runs as ${spec.uid}:${spec.gid}`;
  const advice = `Let others ${verb} it (\`chmod o+${wanted === WRITE_BITS ? 'rwx' : 'rx'}\`), or leave it out`;
  throw new CellaError('WORKSPACE_NOT_WRITABLE', `The container cannot ${verb} ${path}: ${whose}. ${advice}.`);
}

/** With a read-only root, Podman mounts scratch space without a limit here. */
const SCRATCH_OF_PODMAN = ['/run', '/tmp', '/var/tmp'];

/** Covers volumes with empty, read-only mounts, except for the paths in `taken`, which have a mount already. */
export function closedVolumes(
  { name }: Pick<EngineIdentity, 'name'>,
  volumes: readonly string[],
  taken: readonly string[],
): MountSettings[] {
  const places = new Set(volumes.map((path) => posix.resolve('/', path)));
  for (const path of name === 'podman' ? SCRATCH_OF_PODMAN : []) places.add(path);
  for (const path of taken) places.delete(path);
  return [...places].map((Target) => ({ Type: 'tmpfs', Source: '', Target, ReadOnly: true }));
}
