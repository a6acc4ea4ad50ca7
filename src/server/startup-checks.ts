/**
 * What a server checks before it starts: that nothing crosses a network unencrypted unless the operator says so, that its TLS
 * key is private, and that it may open enough files.
 */

import { readFileSync } from 'node:fs';
import { constants, open, readFile } from 'node:fs/promises';
import { messageOf } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ServerConfig } from '../settings/server-config.ts';

/** The group may read it, as is usual for certificates. */
const KEY_OPEN_TO_OTHERS = 0o027;

type Exposure = Pick<ServerConfig, 'host' | 'tlsCert' | 'tlsKey' | 'insecureHttp' | 'allowHost' | 'advertise'>;

/** Whether only programs of this machine can reach an address. */
export function isLoopback(address: string): boolean {
  return address === 'localhost' || address === '::1' || /^127(\.\d{1,3}){3}$/.test(address);
}

/** Passwords and tokens must not cross a network in the clear unless the operator says so by name. */
export function checkExposure({ host, tlsCert, tlsKey, insecureHttp }: Exposure): void {
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new CellaError('INVALID_OPTIONS', '--tls-cert and --tls-key must be set together.', {
      advice: 'Give both, or neither.',
    });
  }
  if (tlsCert !== undefined || insecureHttp || isLoopback(host)) return;
  throw new CellaError(
    'INVALID_OPTIONS',
    `Other machines can reach the server at ${host}: set --tls-cert and --tls-key, or --insecure-http behind a proxy.`,
  );
}

/** A certificate is valid for a name. Behind a proxy that speaks TLS, the address that others use is not known here. */
export function publicUrl(url: string, { tlsCert, allowHost: [name], host }: Exposure): string {
  if (tlsCert === undefined || name === undefined || isLoopback(host)) return url;
  const { protocol, port } = new URL(url);
  return `${protocol}//${name}${port === '' ? '' : `:${port}`}`;
}

/** What requests may call the server beside its address: names of the operator, and what other servers use. */
export function serverNames({ allowHost, advertise }: Exposure): string[] {
  return advertise === undefined ? [...allowHost] : [...allowHost, advertisedHost(advertise)];
}

function advertisedHost(advertise: string): string {
  const url = URL.parse(advertise);
  const bare = url && ['http:', 'https:'].includes(url.protocol) && advertise.replace(/\/$/, '') === url.origin;
  if (bare) return url.hostname;
  const message = `--advertise needs an address such as http://10.0.0.5:7710, not ${JSON.stringify(advertise)}.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

/** Undefined without a certificate. */
export async function readTls({ tlsCert, tlsKey }: Exposure) {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  const unreadable = (path: string) => (cause: unknown) => {
    if (cause instanceof CellaError) throw cause;
    const why = messageOf(cause);
    throw new CellaError('INVALID_OPTIONS', `${path} cannot be read: ${why}.`, { cause });
  };
  return {
    cert: await readFile(tlsCert).catch(unreadable(tlsCert)),
    key: await readPrivateKey(tlsKey).catch(unreadable(tlsKey)),
  };
}

/** Checks and reads the same open file, so that it cannot be replaced in between. */
async function readPrivateKey(path: string): Promise<Buffer> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const { mode, uid } = await file.stat();
  if (uid !== process.geteuid?.() && uid !== 0) {
    throw unsafeKey(
      `The key ${path} belongs to another user (${uid}).`,
      'Make the user of the server its owner (chown), or use a copy.',
      path,
    );
  }
  if ((mode & KEY_OPEN_TO_OTHERS) !== 0) {
    const advice = `Run: chmod 600 ${path}, and create another key if somebody may have read this one.`;
    throw unsafeKey(`Others can read or replace the key ${path}.`, advice, path);
  }
  return await file.readFile();
}

function unsafeKey(message: string, advice: string, path: string): CellaError {
  return new CellaError('INVALID_OPTIONS', message, { advice, details: { path } });
}

/** A server with a few kernels and clients. */
const FILES_NEEDED = 1024;

/** A warning if the limit is too low for a server. */
export function openFilesWarning(limit = openFilesLimit()): string | undefined {
  if (limit >= FILES_NEEDED) return undefined;
  return `The limit of open files is ${limit}, too low for kernels. Raise the limit (ulimit -n ${FILES_NEEDED}) and start the server again.`;
}

/** Node raises the soft limit to the hard one by itself, for its children too. */
function openFilesLimit(): number {
  try {
    const [, hard = ''] = /^Max open files\s+\w+\s+(\w+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard);
  } catch {
    return Number.POSITIVE_INFINITY; // the system does not tell
  }
}
