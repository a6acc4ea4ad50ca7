/** The engine's create options for an environment spec, and the checks of its mounts. */

import { existsSync, realpathSync, statSync } from 'node:fs';
import { posix } from 'node:path';
import type { ContainerCreateOptions, MountSettings } from 'dockerode';
import type { EnvironmentSpec, Mount } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { KernelLimit } from '../../protocol/kernel-limits.ts';
import type { Engine, EngineIdentity } from './engine.ts';

/** Where things of ours are inside. */
export const CONTAINER_PATHS = { kernel: '/cella/kernel', listener: '/cella/connection' } as const;

const SCRATCH = '/tmp';

/** Of the scratch space, what may be shared memory. */
const SHARED_MEMORY = 1 / 4;

/** Counts every process of the user, also outside of the container, whose own are limited by its control group. */
const MOST_OF_A_USER = 32_768;

export interface ContainerSpec {
  readonly spec: EnvironmentSpec;
  /** By its id: a name may mean another one by now. */
  readonly image: string;
  /** Where it wants to have volumes. */
  readonly volumes: readonly string[];
  readonly python: string;
  /** The folder with the kernel's code, on the host. */
  readonly kernel: string;
  /** The folder of the listener, on the host. */
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
    // Read-only folders first: a workspace may lie inside one, and stays writable.
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
    // A check of the image's own would run beside the kernels.
    Healthcheck: { Test: ['NONE'] },
    // Pid 1 ends with its connection; it does not listen to anybody else.
    StopSignal: 'SIGKILL',
    HostConfig: {
      Init: false,
      // A list of hosts is kept by a proxy, which is reached through the listener's folder.
      NetworkMode: spec.network === 'host' ? 'host' : 'none',
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Mounts: mounts,
      // Until its Python is silent, an image may say anything: the engine keeps no more than the end of it.
      LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
      Tmpfs: { [SCRATCH]: `rw,exec,nosuid,nodev,mode=1777,size=${limits.scratchBytes - shared}` },
      ShmSize: shared,
      IpcMode: 'private',
      ...userNamespace(plan.engine),
      Memory: memory,
      MemorySwap: memory,
      PidsLimit: limits.processes,
      NanoCpus: limits.cpus === undefined ? undefined : Math.round(limits.cpus * 1e9),
      // Podman raises what is not named, which not everybody who runs it may do. Pid 1 lowers these and others further.
      Ulimits: [
        { Name: 'core', Soft: 0, Hard: 0 },
        { Name: 'nofile', Soft: limits.openFiles, Hard: limits.openFiles },
        { Name: 'nproc', Soft: MOST_OF_A_USER, Hard: MOST_OF_A_USER },
      ],
    },
  };
}

/** Rootless Podman maps its user to root inside; the user must have the same number inside as outside. */
function userNamespace({ name, rootless }: ContainerSpec['engine']): { UsernsMode?: string } {
  return name === 'podman' && rootless ? { UsernsMode: 'keep-id' } : {};
}

function bind({ path, at }: Mount, readOnly: boolean): MountSettings {
  // Not every engine can make what is mounted inside read-only too: there it is not shown.
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

/** The path was resolved before: a link in it was put there since, and an engine would follow it. */
function checkMountPath({ path, at }: Mount): void {
  // What has another name inside is Cella's own, where no code gets at what is above it.
  if (at !== undefined || (existsSync(path) && realpathSync.native(path) === path)) return;
  const message = `The container cannot have ${path}: it is gone, or a link stands in its way by now.`;
  throw new CellaError('WORKSPACE_NOT_WRITABLE', message, { advice: 'Look who may write to the folders above it.' });
}

/** What lies in another that may be written is seen there; brought in by its name, it would be whatever code puts there. */
export function outermost(folders: readonly Mount[]): Mount[] {
  const isWithin = (one: Mount, other: Mount) =>
    one.at === undefined && other.at === undefined && one.path.startsWith(`${other.path}/`);
  return folders.filter((one) => !folders.some((other) => isWithin(one, other)));
}

function checkMountMode({ path, owner }: Mount, { uid, gid }: EnvironmentSpec, wanted: number, verb: string): void {
  // Without an owner it is the container's own, or was checked before.
  if (!owner) return;
  const { mode } = statSync(path);
  const shift = owner[0] === uid ? 6 : owner[1] === gid ? 3 : 0;
  if (((mode >> shift) & wanted) === wanted) return;
  const whose = `it belongs to ${owner[0]}:${owner[1]}, and the container runs as ${uid}:${gid}`;
  const advice = `Let others ${verb} it (\`chmod o+${wanted === WRITE_BITS ? 'rwx' : 'rx'}\`), or leave it out`;
  throw new CellaError('WORKSPACE_NOT_WRITABLE', `The container cannot ${verb} ${path}: ${whose}. ${advice}.`);
}

/** Where Podman puts scratch space without a limit by itself, if the root is read-only. */
const SCRATCH_OF_PODMAN = ['/run', '/tmp', '/var/tmp'];

/** Empty, read-only mounts in their place. `taken` are those where something else is mounted. */
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
