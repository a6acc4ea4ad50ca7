/** Where packages come from: indexes, folders of wheels, or folders alone. */

import { isAbsolute } from 'node:path';
import { z } from 'zod';

const IndexUrl = z.string().transform((text, check) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    // Not repeated in the message, as it may contain a password.
    check.addIssue({ code: 'custom', message: 'must be the http or https URL of a package index, without ? and #' });
    return z.NEVER;
  }
  // The installer reads it from a file in which quotes have a meaning.
  return url.href.replaceAll("'", '%27');
});

const Folder = z
  .string()
  .refine((path) => isAbsolute(path) && !/\p{Cc}/u.test(path), 'must be an absolute path without control characters');

export const PackageSource = z
  .strictObject({
    /** Used instead of PyPI. May contain a user and a password. */
    index: IndexUrl.optional(),
    extraIndexes: z.array(IndexUrl).max(16).default([]),
    /** Folders with wheels that all users of the machine can read. */
    wheelFolders: z.array(Folder).max(16).default([]),
    /** Use only the folders, and no index. */
    noIndex: z.boolean().default(false),
  })
  .refine(
    ({ noIndex, index, extraIndexes }) => !noIndex || (index === undefined && extraIndexes.length === 0),
    'noIndex cannot be combined with index and extraIndexes',
  );
export type PackageSource = z.infer<typeof PackageSource>;
export type PackageSourceOptions = z.input<typeof PackageSource>;

export function indexesOf(source: PackageSource): URL[] {
  return [...(source.index === undefined ? [] : [source.index]), ...source.extraIndexes].map((text) => new URL(text));
}

/** Identifies the source, as part of a set's name. Users and passwords do not count. */
export function sourceKey(source: PackageSource): unknown {
  const bare = (text: string) => withoutUser(new URL(text));
  return {
    index: source.index === undefined ? null : bare(source.index),
    extraIndexes: source.extraIndexes.map(bare),
    wheelFolders: source.wheelFolders,
    noIndex: source.noIndex,
  };
}

export function withoutUser(url: URL): string {
  const bare = new URL(url);
  bare.username = '';
  bare.password = '';
  return bare.href;
}

/** Removes users and passwords from the output of an installer. */
export function withoutSecrets(text: string, source: PackageSource): string {
  const secrets = indexesOf(source).flatMap(({ username, password }) => [password, password === '' ? username : '']);
  const spellings = secrets.flatMap((secret) => [secret, decoded(secret)]).filter((secret) => secret !== '');
  const blotted = spellings.reduce((rest, secret) => rest.replaceAll(secret, '****'), text);
  // Bounded, so that a long text is not scanned again from each letter. No scheme is longer.
  return blotted.replace(/(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@]*@/gi, '$1');
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % is allowed in a URL
  }
}
