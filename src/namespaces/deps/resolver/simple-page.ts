/** The page of one package on an index, in either form: JSON (PEP 691) or HTML (PEP 503). */

import { z } from 'zod';
import { parseJson } from '../../../interpreter/find-python.ts';
import { linksIn } from './html-links.ts';

export interface IndexFile {
  readonly filename: string;
  readonly url: URL;
  readonly sha256: string | undefined;
  readonly requiresPython: string | undefined;
  /** Taken back by whoever published it. */
  readonly yanked: boolean;
  /** Whether its metadata can be fetched alone, and with which hash. */
  readonly metadata: { readonly sha256: string | undefined } | undefined;
}

export const PAGE_TYPES =
  'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

const Hashes = z.record(z.string(), z.string());
const Page = z.object({
  files: z.array(
    z.object({
      filename: z.string(),
      url: z.string(),
      hashes: Hashes.optional(),
      'requires-python': z.string().nullish(),
      yanked: z.union([z.boolean(), z.string()]).optional(),
      'core-metadata': z.union([z.boolean(), Hashes]).optional(),
      'dist-info-metadata': z.union([z.boolean(), Hashes]).optional(),
    }),
  ),
});

/** Undefined for what is no such page. */
export function readPage(text: string, type: string, base: URL): IndexFile[] | undefined {
  return type.includes('json') ? readJson(text, base) : readHtml(text, base);
}

function readJson(text: string, base: URL): IndexFile[] | undefined {
  const page = Page.safeParse(parseJson(text)).data;
  return page?.files.flatMap((file) => {
    const url = urlOf(file.url, base);
    const metadata = file['core-metadata'] ?? file['dist-info-metadata'] ?? false;
    if (!url) return [];
    return {
      filename: file.filename,
      url,
      sha256: sha256Of(file.hashes?.sha256),
      requiresPython: file['requires-python'] ?? undefined,
      yanked: file.yanked !== undefined && file.yanked !== false,
      metadata: metadata === false ? undefined : { sha256: sha256Of(metadata === true ? undefined : metadata.sha256) },
    };
  });
}

function readHtml(text: string, base: URL): IndexFile[] {
  return linksIn(text, base).map(({ url, text: filename, attributes }) => {
    const metadata = attributes.get('data-core-metadata') ?? attributes.get('data-dist-info-metadata');
    const requiresPython = attributes.get('data-requires-python');
    const bare = new URL(url);
    bare.hash = '';
    return {
      filename,
      url: bare,
      sha256: sha256Of(/(?:^#|&)sha256=(\w+)/.exec(url.hash)?.[1]),
      requiresPython: requiresPython === '' ? undefined : requiresPython,
      yanked: attributes.has('data-yanked'),
      metadata:
        metadata === undefined || metadata === 'false'
          ? undefined
          : { sha256: sha256Of(/^sha256=(\w+)$/.exec(metadata)?.[1]) },
    };
  });
}

/** A hash that is none still has to be met: no file does. */
function sha256Of(text: string | undefined): string | undefined {
  return text?.toLowerCase();
}

function urlOf(text: string, base: URL): URL | undefined {
  const url = URL.canParse(text, base.href) ? new URL(text, base) : undefined;
  if (url) url.hash = '';
  return url;
}
