/** The sandbox policy. Every field has a default, and no default allows more than the caller asked for. */

import { z } from 'zod';
import type { EnvironmentSpec } from './environment-spec.ts';
import { KernelLimit } from './kernel-frames.ts';
import { formatAllowedHost, parseAllowedHost } from './network-hosts.ts';
import { boundedList } from './parse.ts';

const absolutePath = z
  .string()
  .startsWith('/', 'must be an absolute path')
  .refine((path) => !path.includes('\0'), 'must not contain a null byte');

/** The path of the package sets inside a sandbox; read-only. */
export const PACKAGES_INSIDE = '/packages';

export const Limits = z.strictObject({
  /** With control groups: for all processes of a sandbox together. Without: for each process. */
  memoryMb: z.int().min(32).max(1_048_576).default(2048),
  /** Processes and threads. */
  processes: z.int().min(4).max(32_768).default(256),
  /** CPU time of one process in total. */
  cpuSeconds: z.int().min(1).max(31_536_000).default(86_400),
  /** Only for containers: how many processors all processes together can use. Default: all. */
  cpus: z.number().min(0.01).max(1024).optional(),
  /** The largest file that code can write. */
  fileSizeMb: z.int().min(1).max(1_048_576).default(1024),
  openFiles: z.int().min(KernelLimit.leastOpenFiles).max(1_048_576).default(1024),
  /** /tmp and /dev/shm together, in memory. */
  scratchMb: z.int().min(1).max(1_048_576).default(512),
});
export type Limits = z.infer<typeof Limits>;

const allowedHost = z
  .string()
  .refine((text) => parseAllowedHost(text) !== undefined, {
    error: 'must be a host (example.org, *.example.org) or an address, with an optional port',
    abort: true,
  })
  .overwrite((text) => {
    const allowed = parseAllowedHost(text);
    return allowed ? formatAllowedHost(allowed) : text;
  });

/** Hosts that code can reach, only through Cella's proxy. */
const AllowList = z.strictObject({
  allow: boundedList(z.array(allowedHost).min(1, 'must name a host').max(256, 'can have at most 256 hosts'), 256),
});

export const NetworkPolicy = z.union([z.enum(['none', 'host']), AllowList]);
export type NetworkPolicy = z.infer<typeof NetworkPolicy>;

export const SandboxPolicy = z.strictObject({
  /** Folders that code can read, at the same path, in addition to the system, the packages and its workspace. */
  readable: boundedList(z.array(absolutePath).max(64, 'can have at most 64 folders'), 64).default([]),
  /** Folders that code can change, at the same path, in addition to its workspace. */
  writable: boundedList(z.array(absolutePath).max(64, 'can have at most 64 folders'), 64).default([]),
  /** `none`: only its own loopback. `host`: the network of the machine. A list: the hosts that code can reach. */
  network: NetworkPolicy.default('none'),
  /** Control groups limit a sandbox as a whole. By default, a root host requires them, and other hosts use them if available. */
  cgroup: z.enum(['required', 'if-available']).optional(),
});
export type SandboxPolicy = z.infer<typeof SandboxPolicy>;

/** `off` runs the code as this user, without isolation. Only for code that you would run yourself. */
export const SandboxOption = z.union([z.literal('off'), z.literal('on'), SandboxPolicy]).default('on');

const MB = 1024 * 1024;

export function limitsToSpec(limits: Limits): EnvironmentSpec['limits'] {
  return {
    memoryBytes: limits.memoryMb * MB,
    processes: limits.processes,
    cpuSeconds: limits.cpuSeconds,
    cpus: limits.cpus,
    fileBytes: limits.fileSizeMb * MB,
    openFiles: limits.openFiles,
    scratchBytes: limits.scratchMb * MB,
  };
}

export function policyOf(sandbox: 'on' | 'off' | SandboxPolicy): SandboxPolicy {
  return typeof sandbox === 'string' ? { readable: [], writable: [], network: 'none' } : sandbox;
}
