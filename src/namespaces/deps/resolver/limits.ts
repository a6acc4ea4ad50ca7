/** How much the resolver takes before it gives up: an index may be broken, or not a friend. */

export interface Limits {
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
  readonly wishes: number;
  /** Of one package, all of them together. */
  readonly extras: number;
  /** On the version of one package, by all that need it. */
  readonly conditions: number;
  /** Versions that are looked at before no answer is the answer. */
  readonly versions: number;
  /** Without a byte from the index. */
  readonly silenceMs: number;
}

const MB = 1024 * 1024;

export const LIMITS: Limits = {
  pageBytes: 64 * MB,
  metadataBytes: 4 * MB,
  wheelBytes: 512 * MB,
  totalBytes: 2048 * MB,
  unpackedBytes: 4096 * MB,
  files: 50_000,
  packages: 300,
  wishes: 10_000,
  extras: 100,
  conditions: 500,
  versions: 500,
  silenceMs: 15_000,
};
