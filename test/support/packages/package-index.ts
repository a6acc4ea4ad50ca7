/** A package index for tests: HTML or JSON over a folder of wheels and sources, on loopback, that can be down or lie. */

import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

export interface PackageIndex {
  /** Of the index itself: `http://127.0.0.1:1234/simple/`. */
  readonly url: string;
  /** What was asked for, in order: `/simple/tiny/`. */
  readonly requests: readonly string[];
  /** Those of the requests that came with a user and a password. */
  readonly knownUsers: readonly string[];
  /** HTML (PEP 503) unless told otherwise. */
  form?: 'html' | 'json';
  /** What it says of a file, beside or in place of the truth. */
  about?: (filename: string) => About;
  /** Where whoever asks for this path is sent. */
  elsewhere?: (path: string) => string | undefined;
  /** With it, whoever does not send this `user:password` is refused. */
  password?: string;
  /** Called before each answer: one that does not resolve makes the installer wait. */
  before?: (path: string) => Promise<void> | void;
  /** From now on nobody listens on the port. */
  down(): Promise<void>;
  /** On the same port as before. */
  up(): Promise<void>;
  close(): Promise<void>;
}

export interface About {
  readonly sha256?: string;
  readonly requiresPython?: string;
  readonly yanked?: boolean;
  /** What it serves as the metadata of the wheel. */
  readonly metadata?: string;
}

export async function startIndex(folder: string): Promise<PackageIndex> {
  let port = 0;
  const requests: string[] = [];
  const knownUsers: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    if (request.headers.authorization !== undefined) knownUsers.push(request.url ?? '');
    answer(folder, index, request, response).catch(() => response.writeHead(500).end());
  });
  const up = async () => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
    await promise;
    port = (server.address() as AddressInfo).port;
  };
  const down = async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    server.closeAllConnections();
    await promise;
  };
  await up();
  const index: PackageIndex = { url: `http://127.0.0.1:${port}/simple/`, requests, knownUsers, down, up, close: down };
  return index;
}

async function answer(folder: string, index: PackageIndex, request: IncomingMessage, response: ServerResponse) {
  const path = decodeURIComponent(new URL(request.url ?? '/', 'http://index').pathname);
  await index.before?.(path);
  const given = request.headers.authorization?.replace(/^Basic /, '') ?? '';
  if (index.password !== undefined && Buffer.from(given, 'base64').toString() !== index.password) {
    return response.writeHead(401, { 'www-authenticate': 'Basic realm="index"' }).end();
  }
  const location = index.elsewhere?.(path);
  if (location !== undefined) return response.writeHead(302, { location }).end();
  const wheels = (await readdir(folder)).filter((name) => /\.(whl|tar\.gz)$/.test(name));
  const [, file] = /^\/files\/([^/]+)$/.exec(path) ?? [];
  if (file !== undefined && wheels.includes(file)) return response.end(await readFile(join(folder, file)));
  const [, described = ''] = /^\/files\/([^/]+)\.metadata$/.exec(path) ?? [];
  const metadata = index.about?.(described).metadata;
  if (metadata !== undefined) return response.end(metadata);
  const [, wanted] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
  const found = wheels.filter((name) => nameOf(name) === wanted);
  if (found.length === 0) return response.writeHead(404).end();
  const files = await Promise.all(found.map((name) => describeFile(folder, name, index.about?.(name) ?? {})));
  if (index.form === 'json') {
    const body = JSON.stringify({ meta: { 'api-version': '1.0' }, name: wanted, files });
    return response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' }).end(body);
  }
  const links = files.map((file) => {
    const python = file['requires-python'] === undefined ? '' : ` data-requires-python="${file['requires-python']}"`;
    const sum = file['core-metadata'];
    const core = sum ? ` data-core-metadata="sha256=${sum.sha256}"` : '';
    const yanked = file.yanked ? ' data-yanked=""' : '';
    return `<a href="${file.url}#sha256=${file.hashes.sha256}"${python}${core}${yanked}>${file.filename}</a>`;
  });
  const body = `<!DOCTYPE html><html><body>${links.join('\n')}</body></html>`;
  return response.writeHead(200, { 'content-type': 'text/html' }).end(body);
}

async function describeFile(folder: string, filename: string, about: About) {
  const sha256 = (content: string | Uint8Array) => createHash('sha256').update(content).digest('hex');
  return {
    filename,
    url: `/files/${filename}`,
    hashes: { sha256: about.sha256 ?? sha256(await readFile(join(folder, filename))) },
    'requires-python': about.requiresPython,
    'core-metadata': about.metadata === undefined ? false : { sha256: sha256(about.metadata) },
    yanked: about.yanked ?? false,
  } as const;
}

function nameOf(wheel: string): string {
  return (wheel.split('-')[0] ?? '').replace(/[-_.]+/g, '-').toLowerCase();
}
