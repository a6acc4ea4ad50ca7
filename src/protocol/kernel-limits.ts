/**
 * The numbers that the host and Python agree on, beside frame types: descriptors, exit codes and limits. Python has them in
 * python/cella_kernel/protocol.py; kernel-limits.test.ts compares both sides.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

/** The descriptors of a kernel. */
export const KernelFd = {
  control: 256,
  stdout: 257,
  stderr: 258,
  stdoutReader: 259,
  stderrReader: 260,
  registration: 261,
} as const;

/** How our own processes exit if they cannot go on. */
export const ExitCode = {
  failed: 70,
  supervisorFailed: 71,
  /** The kernel had no memory left for its own work. */
  outOfMemory: 72,
  snapshotFailed: 73,
  /** The kernel could not be isolated or set up, and has run no code. */
  notIsolated: 74,
  /** A program could not be started. Other programs may exit with this code, too. */
  notStarted: 127,
} as const;

export const KernelLimit = {
  /** What a process must be allowed to have open to become a kernel. */
  leastOpenFiles: 576,
  /** In one sandbox. */
  mostSnapshots: 128,
  /** What pid 1 may use, beside the limit of the code. */
  supervisorMemoryBytes: 32 * MIB,

  /** In the output: orders it with frames. */
  markerBytes: 16,
  /** In the output: begins a piece of an execution that is over. */
  tagBytes: 16,
  /** One tagged piece, with its tag. */
  largestPieceBytes: 4096,

  /** One value: bytes, items of lists and keys of dicts together, and levels. */
  largestValueBytes: 8 * MIB,
  mostValueItems: 50_000,
  deepestValue: 200,
  /** Decimal. */
  mostIntegerDigits: 10_000,
  /** So many bits of a long integer count as one item. */
  integerItemBits: 90,
  longestRepr: MIB,

  /** Of a variable, a class or a MIME type. */
  longestName: 255,
  longestMessage: 64 * KIB,
  longestTraceback: 256 * KIB,
  longestPrompt: 64 * KIB,
  /** Of one bundle. */
  mostMimeTypes: 100,

  /** Calls that a kernel keeps open at a time. */
  mostCalls: 64,
  largestCallBytes: 2 * MIB,
  /** A call that carries a piece of a file. */
  largestFileCallBytes: 9 * MIB,
  largestAnswerBytes: 4 * MIB,

  /** Of one checkpoint. */
  mostVariables: 10_000,
  /** One part of a segment, without its header. */
  partBytes: 8 * MIB,
} as const;
