/** Limits of the resolver, for an index that is broken or hostile, and the error that says why it gave up. */

import type { InstallFailure } from '../run-installer.ts';

export interface ResolverLimits {
  /** Of one page of an index. */
  readonly pageBytes: number;
  /** Of one package's metadata. */
  readonly metadataBytes: number;
  /** Of one wheel, as it is fetched. */
  readonly wheelBytes: number;
  /** Of all that is fetched. */
  readonly totalBytes: number;
  /** Of all files of one set, unpacked. */
  readonly unpackedBytes: number;
  /** In one wheel. */
  readonly files: number;
  /** In one set. */
  readonly packages: number;
  /** Requirements of all of them together. */
  readonly maxRequirements: number;
  /** Of one package, all of them together. */
  readonly extras: number;
  /** On the version of one package, by all that need it. */
  readonly conditions: number;
  /** Versions that are looked at before no answer is the answer. */
  readonly versions: number;
  /** Without a byte from the index. */
  readonly idleTimeoutMs: number;
}

const MB = 1024 * 1024;

export const DEFAULT_LIMITS: ResolverLimits = {
  pageBytes: 64 * MB,
  metadataBytes: 4 * MB,
  wheelBytes: 512 * MB,
  totalBytes: 2048 * MB,
  unpackedBytes: 4096 * MB,
  files: 50_000,
  packages: 300,
  maxRequirements: 10_000,
  extras: 100,
  conditions: 500,
  versions: 500,
  idleTimeoutMs: 15_000,
};

export class Failed extends Error implements InstallFailure {
  readonly reason: string;
  readonly scope: InstallFailure['scope'];

  /** `all`: it would be the same for any requirement. */
  constructor(reason: string, scope: InstallFailure['scope'] = 'some') {
    super(reason);
    this.reason = reason;
    this.scope = scope;
  }
}
