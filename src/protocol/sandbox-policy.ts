/** What a sandbox allows. Everything has a default, and nothing is looser than what the caller asked for. */

import { z } from 'zod';
import type { EnvironmentSpec } from './environment-spec.ts';
import { KernelLimit } from './kernel-frames.ts';
import { formatAllowedHost, parseAllowedHost } from './network-hosts.ts';
import { boundedList } from './parse.ts';

const absolutePath = z
  .string()
  .startsWith('/', 'must be an absolute path')
  .refine((path) => !path.includes('\0'), 'must not contain a null byte');

/** Where a sandbox sees the folder of all package sets, and may not write. */
export const PACKAGES_INSIDE = '/packages';

export const Limits = z.strictObject({
  /** Of all processes of a sandbox together where there are control groups, else of each. */
  memoryMb: z.int().min(32).max(1_048_576).default(2048),
  /** Processes and threads. */
  processes: z.int().min(4).max(32_768).default(256),
  /** CPU time of one process over its whole life. */
  cpuSeconds: z.int().min(1).max(31_536_000).default(86_400),
  /** Of a container: how many processors all of its processes together may keep busy. Without it, all there are. */
  cpus: z.number().min(0.01).max(1024).optional(),
  /** The largest file that code may write. */
  fileSizeMb: z.int().min(1).max(1_048_576).default(1024),
  openFiles: z.int().min(KernelLimit.leastOpenFiles).max(1_048_576).default(1024),
  /** /tmp and /dev/shm together, in memory. */
  scratchMb: z.int().min(1).max(1_048_576).default(512),
});
export type Limits = z.infer<typeof Limits>;

const allowedHost = z
  .string()
  .refine((text) => parseAllowedHost(text) !== undefined, {
    error: 'must be a host (example.org, *.example.org) or an address, with a port or without one, and nothing else',
    abort: true,
  })
  .overwrite((text) => {
    const allowed = parseAllowedHost(text);
    return allowed ? formatAllowedHost(allowed) : text;
  });

/** Hosts that can be reached, through a proxy of ours and in no other way. */
const AllowList = z.strictObject({
  allow: boundedList(z.array(allowedHost).min(1, 'must name a host').max(256, 'may name 256 hosts at most'), 256),
});

export const NetworkPolicy = z.union([z.enum(['none', 'host']), AllowList]);
export type NetworkPolicy = z.infer<typeof NetworkPolicy>;

export const SandboxPolicy = z.strictObject({
  /** Folders the code may read, at the same path, beside the system, the packages and its workspace. */
  readable: boundedList(z.array(absolutePath).max(64, 'may name 64 folders at most'), 64).default([]),
  /** Folders the code may change, at the same path, beside its workspace. */
  writable: boundedList(z.array(absolutePath).max(64, 'may name 64 folders at most'), 64).default([]),
  /** `none` is a network of its own with nothing but loopback; `host` is the machine's; a list names what is reached. */
  network: NetworkPolicy.default('none'),
  /** Control groups bound a sandbox as a whole. By default a root host requires them, any other uses them if it may. */
  cgroup: z.enum(['required', 'if-available']).optional(),
});
export type SandboxPolicy = z.infer<typeof SandboxPolicy>;

/** `off` runs the code as this user, with no isolation at all: for code you would run yourself. */
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
