/** The resolved spec of an environment: user, mounts, network, limits; and the Python of its kernels. */

import { z } from 'zod';
import { NetworkPolicy } from './sandbox-policy.ts';

export const FolderId = z.object({
  device: z.string(),
  inode: z.string(),
  /** Device numbers can change when the machine restarts. */
  boot: z.string(),
});
export type FolderId = z.infer<typeof FolderId>;

const userAndGroup = z.tuple([z.int(), z.int()]).readonly();

const Mount = z.strictObject({
  path: z.string(),
  /** Its path inside, if that differs. */
  at: z.string().optional(),
  /** The identity that the folder must have, if a caller has named the folder. */
  id: FolderId.optional(),
  /** On a root host: the owner on disk, shown inside as the sandbox's own user. */
  owner: userAndGroup.optional(),
});
export type Mount = z.infer<typeof Mount>;

const EnvironmentLimits = z.strictObject({
  memoryBytes: z.int(),
  /**
   * `reserved` (the default) also limits what a process reserves, so that it gets an error before it would be killed.
   * Programs that reserve far more addresses than they use, such as those built on V8 and JavaScriptCore, need `used`.
   */
  memoryCounts: z.enum(['reserved', 'used']).optional(),
  processes: z.int(),
  cpuSeconds: z.int(),
  cpus: z.number().optional(),
  fileBytes: z.int(),
  openFiles: z.int(),
  scratchBytes: z.int(),
});

export const EnvironmentSpec = z.strictObject({
  uid: z.int(),
  gid: z.int(),
  network: NetworkPolicy,
  readable: z.array(Mount).readonly(),
  /** The folder of the agent key. It is also in `writable`. */
  folder: Mount,
  writable: z.array(Mount).readonly(),
  /** As seen inside. */
  home: z.string(),
  /** As seen inside. */
  cwd: z.string(),
  limits: EnvironmentLimits.readonly(),
});
export type EnvironmentSpec = Readonly<z.infer<typeof EnvironmentSpec>>;

export interface Interpreter {
  /** `cp311-x86_64`, `cp312-musl-x86_64`: a folder's name, with the machine at its end. */
  readonly tag: string;
  readonly version: readonly [major: number, minor: number];
  /** The patch number of its version. If undefined, packages are chosen for the last release of that version. */
  readonly patch?: number | undefined;
  /** The path of the interpreter, if it is on the host. */
  readonly executable?: string | undefined;
  /** The platforms whose wheels it accepts, as wheels name them, best first. Empty: only pure Python. */
  readonly platforms: readonly string[];
}
