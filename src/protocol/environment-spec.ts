/** The resolved spec of an environment: user, mounts, network, limits; and the Python of its kernels. */

import { z } from 'zod';
import { NetworkPolicy } from './sandbox-policy.ts';

export const FolderId = z.object({
  device: z.string(),
  inode: z.string(),
  /** Devices may have other numbers after the machine was started anew. */
  boot: z.string(),
});
export type FolderId = z.infer<typeof FolderId>;

const userAndGroup = z.tuple([z.int(), z.int()]).readonly();

const Mount = z.strictObject({
  path: z.string(),
  /** Its path inside, if that differs. */
  at: z.string().optional(),
  /** Which folder it must be, if a caller has named it. */
  id: FolderId.optional(),
  /** On a root host: the owner on disk, shown inside as the sandbox's own user. */
  owner: userAndGroup.optional(),
});
export type Mount = z.infer<typeof Mount>;

const EnvironmentLimits = z.strictObject({
  memoryBytes: z.int(),
  /**
   * `reserved` (the default) also bounds what a process asks for, so that it gets an error before it would be killed.
   * Programs that reserve far more addresses than they ever use, such as those on V8 and JavaScriptCore, need `used`.
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
  /** The folder of the agent key. `writable` has it, too. */
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
  /** The third number of its version. Without it packages are chosen for the last release of that version. */
  readonly patch?: number | undefined;
  /** The program, if it is one of the host's. */
  readonly executable?: string | undefined;
  /** The platforms whose wheels it takes, as wheels name them, best first. None: pure Python alone. */
  readonly platforms: readonly string[];
}
