/** Limits of the resolver, for an index that is broken or hostile, and the error that says why it gave up. */

import type { InstallFailure } from '../run-installer.ts';

export interface ResolverLimits {
  /** Bytes of one page of an index. */
  readonly pageBytes: number;
  /** Bytes of the metadata of one package. */
  readonly metadataBytes: number;
  /** Bytes of one wheel, as downloaded. */
  readonly wheelBytes: number;
  /** Bytes of all downloads. */
  readonly totalBytes: number;
  /** Bytes of all files of one set, unpacked. */
  readonly unpackedBytes: number;
  /** Files in one wheel. */
  readonly files: number;
  /** Packages in one set. */
  readonly packages: number;
  /** Requirements of all packages in total. */
  readonly maxRequirements: number;
  /** Extras of one package in total. */
  readonly extras: number;
  /** Conditions on the version of one package in total. */
  readonly conditions: number;
  /** Versions that are tried before the resolver gives up. */
  readonly versions: number;
  /** Milliseconds without a byte from the index. */
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

export class ResolutionError extends Error implements InstallFailure {
  readonly reason: string;
  readonly scope: InstallFailure['scope'];

  /** `all`: the error would be the same for any requirement. */
  constructor(reason: string, scope: InstallFailure['scope'] = 'some') {
    super(reason);
    this.reason = reason;
    this.scope = scope;
  }
}
