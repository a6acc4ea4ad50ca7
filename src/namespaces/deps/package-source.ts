/** Where packages come from: indexes, folders of wheels, or folders alone. */

import { isAbsolute } from 'node:path';
import { z } from 'zod';

const IndexUrl = z.string().transform((text, check) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    // The text may hold a password, so that it is not repeated.
    check.addIssue({ code: 'custom', message: 'must be the http or https URL of a package index, without ? and #' });
    return z.NEVER;
  }
  // The installer reads it from a file where a quote has a meaning.
  return url.href.replaceAll("'", '%27');
});

const Folder = z
  .string()
  .refine((path) => isAbsolute(path) && !/\p{Cc}/u.test(path), 'must be an absolute path without control characters');

export const PackageSource = z
  .strictObject({
    /** In place of PyPI. It may hold a user and a password. */
    index: IndexUrl.optional(),
    extraIndexes: z.array(IndexUrl).max(16).default([]),
    /** Folders with wheels in them, which every user of the machine can read. */
    wheelFolders: z.array(Folder).max(16).default([]),
    /** Folders alone: no index is asked. */
    noIndex: z.boolean().default(false),
  })
  .refine(
    ({ noIndex, index, extraIndexes }) => !noIndex || (index === undefined && extraIndexes.length === 0),
    'noIndex leaves no place for index and extraIndexes',
  );
export type PackageSource = z.infer<typeof PackageSource>;
export type PackageSourceOptions = z.input<typeof PackageSource>;

export function indexesOf(source: PackageSource): URL[] {
  return [...(source.index === undefined ? [] : [source.index]), ...source.extraIndexes].map((text) => new URL(text));
}

/** What two sets of the same requirements may differ by. Who asks makes no difference, and stays out of it. */
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

/** Takes users and passwords out of what an installer says. */
export function withoutSecrets(text: string, source: PackageSource): string {
  const secrets = indexesOf(source).flatMap(({ username, password }) => [password, password === '' ? username : '']);
  const spellings = secrets.flatMap((secret) => [secret, decoded(secret)]).filter((secret) => secret !== '');
  const blotted = spellings.reduce((rest, secret) => rest.replaceAll(secret, '****'), text);
  // No scheme is longer, and text without end is not gone through again from each of its letters.
  return blotted.replace(/(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@]*@/gi, '$1');
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % is allowed in a URL
  }
}
