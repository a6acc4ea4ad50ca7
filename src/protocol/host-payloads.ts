/** What the host sends to the template, pid 1 and kernels as JSON: the schema of each payload. Python trusts the host and does not check it. */

import { z } from 'zod';
import { EnvironmentSpec, FolderId } from './environment-spec.ts';
import { TerminalSize } from './workspace-models.ts';

const variables = z.record(z.string(), z.string()).readonly();

/** The host's proxy, for a network with a list of hosts: a port on loopback, and the socket inside that it leads to. */
const ProxyPort = z.strictObject({ port: z.int(), socket: z.string() });
export type ProxyPort = z.infer<typeof ProxyPort>;

const { uid, gid, home, cwd, limits } = EnvironmentSpec.shape;

/** Make a sandbox. */
const OpenSandbox = z.strictObject({
  id: z.string(),
  policy: EnvironmentSpec.extend({ network: z.enum(['none', 'host']), proxy: ProxyPort.optional() }),
});
/** The engine has made the container. It gets no paths of the host. */
const OpenContainer = z.strictObject({
  policy: z.strictObject({
    ...{ uid, gid, home, cwd, limits },
    /** Folders that must be those that the session was made with. */
    folders: z.array(z.strictObject({ path: z.string(), id: FolderId })).readonly(),
    proxy: ProxyPort.optional(),
  }),
});

/** A program to run beside the kernels. */
export const ProgramSpec = z.strictObject({
  argv: z.array(z.string()).readonly(),
  /** Variables in addition to those of every process in the environment. */
  env: variables,
  /** The folder of packages that it can import, as a path inside. */
  packages: z.string().optional(),
  /** The folder that it starts in, as a path inside; without it, the one that kernels start in. */
  cwd: z.string().optional(),
  /** `open`: the host writes its input. Without it, the input is empty. */
  stdin: z.literal('open').optional(),
  /** Runs it on a terminal of this size; an empty `argv` runs the shell. */
  terminal: TerminalSize.optional(),
});
export type ProgramSpec = Readonly<z.infer<typeof ProgramSpec>>;

const Attach = z.strictObject({
  /** The number that the kernel or program will have. */
  kernel: z.int(),
  /** The snapshot that becomes the kernel; null for a new, empty kernel. */
  snapshot: z.int().nullable(),
  /** The snapshot stays, and forks the kernel. */
  keep: z.boolean(),
  /** Nobody waits for this kernel yet. */
  spare: z.boolean(),
  command: ProgramSpec.optional(),
});
export type Attach = z.infer<typeof Attach>;

/** By frame type; OPEN and ATTACH of a container differ from those of a sandbox. */
export const hostPayloads = {
  openSandbox: OpenSandbox,
  openContainer: OpenContainer,
  attachInSandbox: Attach.extend({ id: z.string(), sandbox: z.string() }),
  /** `out` and `err` are names of FIFOs; `token` is hexadecimal. */
  attachInContainer: Attach.extend({ out: z.string(), err: z.string(), token: z.string() }),
  interrupt: z.strictObject({ execution: z.int() }),
  /** `gently`: SIGTERM to a program and what came from it. */
  kill: z.strictObject({ gently: z.boolean() }),
  resize: TerminalSize,
  start: z.strictObject({
    /** Variables in addition to those of every kernel. */
    env: variables,
    /** The folder of packages that it can import, as a path inside. */
    packages: z.string().optional(),
    /** Seeds what is random anew. */
    reseed: z.boolean(),
  }),
  request: z.strictObject({ method: z.string(), params: z.record(z.string(), z.unknown()) }),
  save: z.strictObject({ limitBytes: z.int(), seconds: z.number() }),
} as const;

export type HostPayload<Kind extends keyof typeof hostPayloads> = Readonly<z.infer<(typeof hostPayloads)[Kind]>>;

export function encodeHostPayload<Kind extends keyof typeof hostPayloads>(
  _kind: Kind,
  payload: HostPayload<Kind>,
): string {
  return JSON.stringify(payload);
}
