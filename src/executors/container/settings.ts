/** What the engine is told of a container: every layer of its isolation that is the engine's to put in place. */

import type { ContainerCreateOptions, MountSettings } from 'dockerode';
import type { EnvironmentSpec, Mount } from '../../sandbox/spec.ts';
import type { Engine } from './engine.ts';
import { outermost } from './folders.ts';
import { closedVolumes } from './volumes.ts';

/** Where things of ours are inside. */
export const INSIDE = { kernel: '/cella/kernel', door: '/cella/door' } as const;

const SCRATCH = '/tmp';

/** Of the scratch space, what may be shared memory. */
const SHARED_MEMORY = 1 / 4;

/** What pid 1 takes for itself: it is not counted into what the code may use. */
const OWN_MEMORY = 32 * 1024 * 1024;

/** Counts every process of the user, also outside of the container, whose own are limited by its control group. */
const MOST_OF_A_USER = 32_768;

export interface ContainerPlan {
  readonly spec: EnvironmentSpec;
  /** By its id: a name may mean another one by now. */
  readonly image: string;
  /** Where it wants to have volumes. */
  readonly volumes: readonly string[];
  readonly python: string;
  /** The folder with the kernel's code, on the host. */
  readonly kernel: string;
  /** The folder of the door, on the host. */
  readonly door: string;
  readonly preload: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly engine: Pick<Engine, 'name' | 'rootless'>;
}

export function containerSettings(plan: ContainerPlan): ContainerCreateOptions {
  const { spec, door } = plan;
  const { limits } = spec;
  const shared = Math.floor(limits.scratchBytes * SHARED_MEMORY);
  const memory = limits.memoryBytes + OWN_MEMORY;
  const mounts: MountSettings[] = [
    bind({ path: plan.kernel, at: INSIDE.kernel }, true),
    bind({ path: door, at: INSIDE.door }, true),
    bind({ path: `${door}/passwd`, at: '/etc/passwd' }, true),
    bind({ path: `${door}/group`, at: '/etc/group' }, true),
    // Read-only folders first: a workspace may lie inside one, and stays writable.
    ...spec.readable.map((folder) => bind(folder, true)),
    ...outermost(spec.writable).map((folder) => bind(folder, false)),
  ];
  mounts.push(...closedVolumes(plan.engine, plan.volumes, [SCRATCH, ...mounts.map(({ Target }) => Target)]));
  return {
    Image: plan.image,
    Entrypoint: [plan.python, '-I', '-X', 'utf8', INSIDE.kernel],
    Cmd: ['container', JSON.stringify({ folder: INSIDE.door, preload: plan.preload })],
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
      // A list of hosts is kept by a proxy, which is reached through the door.
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
      ...(limits.cpus === undefined ? {} : { NanoCpus: Math.round(limits.cpus * 1e9) }),
      // Podman raises what is not named, which not everybody who runs it may do. Pid 1 lowers these and others further.
      Ulimits: [
        { Name: 'core', Soft: 0, Hard: 0 },
        { Name: 'nofile', Soft: limits.openFiles, Hard: limits.openFiles },
        { Name: 'nproc', Soft: MOST_OF_A_USER, Hard: MOST_OF_A_USER },
      ],
    },
  };
}

/** A user's own Podman gives root's number to whoever runs it, and here it is to be the same inside as outside. */
function userNamespace({ name, rootless }: ContainerPlan['engine']): { UsernsMode?: string } {
  return name === 'podman' && rootless ? { UsernsMode: 'keep-id' } : {};
}

function bind({ path, at }: Mount, readOnly: boolean): MountSettings {
  // Not every engine can make what is mounted inside read-only too: there it is not shown.
  const alone = readOnly ? { BindOptions: { Propagation: 'rprivate' as const, NonRecursive: true } } : {};
  return { Type: 'bind', Source: path, Target: at ?? path, ReadOnly: readOnly, ...alone };
}
