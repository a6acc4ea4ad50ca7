/** A package index for tests: PEP 503 over a folder of wheels and sources, on loopback, that can be down for a while. */

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

export async function startIndex(folder: string): Promise<PackageIndex> {
  let port = 0;
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
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
  const index: PackageIndex = { url: `http://127.0.0.1:${port}/simple/`, requests, down, up, close: down };
  return index;
}

async function answer(folder: string, index: PackageIndex, request: IncomingMessage, response: ServerResponse) {
  const path = decodeURIComponent(new URL(request.url ?? '/', 'http://index').pathname);
  await index.before?.(path);
  const given = request.headers.authorization?.replace(/^Basic /, '') ?? '';
  if (index.password !== undefined && Buffer.from(given, 'base64').toString() !== index.password) {
    return response.writeHead(401, { 'www-authenticate': 'Basic realm="index"' }).end();
  }
  const wheels = (await readdir(folder)).filter((name) => /\.(whl|tar\.gz)$/.test(name));
  const [, file] = /^\/files\/([^/]+)$/.exec(path) ?? [];
  if (file !== undefined && wheels.includes(file)) return response.end(await readFile(join(folder, file)));
  const [, wanted] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
  const found = wheels.filter((name) => nameOf(name) === wanted);
  if (found.length === 0) return response.writeHead(404).end();
  const links = found.map(async (name) => {
    const hash = createHash('sha256').update(await readFile(join(folder, name)));
    return `<a href="/files/${name}#sha256=${hash.digest('hex')}">${name}</a>`;
  });
  const body = `<!DOCTYPE html><html><body>${(await Promise.all(links)).join('\n')}</body></html>`;
  return response.writeHead(200, { 'content-type': 'text/html' }).end(body);
}

function nameOf(wheel: string): string {
  return (wheel.split('-')[0] ?? '').replace(/[-_.]+/g, '-').toLowerCase();
}
