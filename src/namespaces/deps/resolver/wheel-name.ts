/** What the name of a file on an index says: a wheel with its tags, or a source. */

import { packageName } from '../../../protocol/requirement.ts';
import { parseVersion, type Version } from './version.ts';

export interface FileName {
  /** Of the package, in the one spelling. */
  readonly name: string;
  /** As written. */
  readonly versionText: string;
  readonly version: Version;
  /** None for a source. */
  readonly wheel: { readonly tags: readonly string[]; readonly build: number } | undefined;
}

/** Whatever an index calls a file: one that cannot be a file's name is none, and none is shown with signs that act. */
const PLAIN = /^[\x21-\x7e]{1,255}$/;
/** Wheels for several Pythons and systems have a few dozen. */
const MOST_TAGS = 1000;
const SOURCE = /\.(?:tar\.gz|zip|tar\.bz2|tgz)$/;

/** Undefined for any other file. Of sources, that of `name` alone: theirs does not say where the name ends. */
export function parseFileName(text: string, name: string): FileName | undefined {
  if (!PLAIN.test(text)) return undefined;
  return text.endsWith('.whl') ? parseWheel(text.slice(0, -4)) : parseSource(text, name);
}

function parseWheel(text: string): FileName | undefined {
  const parts = text.split('-');
  if (parts.length !== 5 && parts.length !== 6) return undefined;
  const [written = '', versionText = ''] = parts;
  const [pythons = '', abis = '', platforms = ''] = parts.slice(-3).map((part) => part.toLowerCase());
  const version = parseVersion(versionText.replaceAll('_', '-'));
  if (!version || !/^[A-Za-z0-9._]+$/.test(written)) return undefined;
  const [someOf, abisOf, platformsOf] = [pythons.split('.'), abis.split('.'), platforms.split('.')];
  if (someOf.length * abisOf.length * platformsOf.length > MOST_TAGS) return undefined;
  const tags = someOf.flatMap((python) =>
    abisOf.flatMap((abi) => platformsOf.map((platform) => `${python}-${abi}-${platform}`)),
  );
  const build = parts.length === 6 ? Number.parseInt(parts[2] ?? '', 10) : -1;
  return Number.isNaN(build) ? undefined : { name: packageName(written), versionText, version, wheel: { tags, build } };
}

function parseSource(text: string, name: string): FileName | undefined {
  if (!SOURCE.test(text)) return undefined;
  const bare = text.replace(SOURCE, '');
  const [written, versionText] = /^(.+)-([^-]+)$/.exec(bare)?.slice(1) ?? [];
  const version = versionText === undefined ? undefined : parseVersion(versionText);
  if (written === undefined || versionText === undefined || !version || packageName(written) !== name) return undefined;
  return { name, versionText, version, wheel: undefined };
}
