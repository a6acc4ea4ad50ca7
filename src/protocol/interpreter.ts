/** The Python of the kernels, as far as a package must fit it. */

export interface Interpreter {
  /** `cp311-x86_64`, `cp312-musl-x86_64`: a folder's name, with the machine at its end. */
  readonly tag: string;
  readonly version: readonly [major: number, minor: number];
  /** The third number of its version. Without it packages are chosen for the last release of that version. */
  readonly patch?: number | undefined;
  /** The program, where it is one of the host's. */
  readonly executable?: string | undefined;
  /** The platforms whose wheels it takes, as wheels name them, best first. None: pure Python alone. */
  readonly platforms: readonly string[];
}
