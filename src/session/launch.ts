/** From checked options to what an executor needs: folders, identity, environment, limits. */

import { mkdirSync, realpathSync } from 'node:fs';
import { delimiter, dirname, resolve } from 'node:path';
import { readEnvironment } from '../environment.ts';
import type { TemplateConfig } from '../executors/subprocess/template.ts';
import { CellaError } from '../protocol/errors.ts';
import { findPython } from '../sandbox/python.ts';
import {
  type LaunchSpec,
  limitsToSpec,
  makeOwnFolder,
  makePassage,
  policyOf,
  readableFolder,
  resolveFolder,
  writableFolder,
} from '../sandbox/spec.ts';
import { identityFor } from '../sandbox/uid.ts';
import { agentFolders } from './folders.ts';
import type { CheckedOptions } from './options.ts';

export interface Launch {
  readonly template: TemplateConfig;
  readonly spec: LaunchSpec;
}

export async function prepareLaunch(options: CheckedOptions): Promise<Launch> {
  const environment = readEnvironment();
  const python = await locatePython(options.python ?? environment.python);
  const dataDir = realDataDir(resolve(options.dataDir ?? environment.dataDir));
  const identity = identityFor(dataDir, options.agentKey);
  const policy = policyOf(options.sandbox);
  const sandbox = options.sandbox === 'off' ? 'off' : 'on';
  const template: TemplateConfig = {
    python,
    sandbox,
    cgroup: policy.cgroup ?? (identity.root ? 'required' : 'if-available'),
    preload: options.preload,
  };
  const root = identity.root && sandbox === 'on';
  const own = agentFolders(dataDir, options.agentKey);
  makePassage(own.own);
  makeOwnFolder(own.home, identity.uid, identity.gid, root);
  makeOwnFolder(own.workspace, identity.uid, identity.gid, root);
  const elsewhere = options.cwd === undefined ? undefined : resolveFolder(resolve(options.cwd), 'cwd', dataDir);
  const readable = policy.readable.map((path) =>
    readableFolder(resolveFolder(path, 'sandbox.readable', dataDir), root),
  );
  const writable = policy.writable.map((path) =>
    writableFolder(resolveFolder(path, 'sandbox.writable', dataDir), root),
  );
  const spec: LaunchSpec = {
    uid: identity.uid,
    gid: identity.gid,
    network: policy.network,
    readable,
    writable: [{ path: own.own }, ...(elsewhere === undefined ? [] : [writableFolder(elsewhere, root)]), ...writable],
    env: environmentFor(python, own.home, options.env),
    cwd: elsewhere ?? own.workspace,
    limits: limitsToSpec(options.limits),
  };
  return { template, spec };
}

const located = new Map<string | undefined, Promise<string>>();

/** Looked up once a process: a new session must not wait for the disk. */
function locatePython(wanted: string | undefined): Promise<string> {
  let found = located.get(wanted);
  if (!found) {
    found = findPython(wanted);
    located.set(wanted, found);
    found.catch(() => located.delete(wanted));
  }
  return found;
}

const realPaths = new Map<string, string>();

/** Made where it is missing, for this user alone, and freed of symbolic links. */
function realDataDir(wanted: string): string {
  const known = realPaths.get(wanted);
  if (known !== undefined) return known;
  try {
    // Making folders in /proc and its like never ends.
    const place = wanted.split('/')[1] ?? '';
    if (['proc', 'sys', 'dev'].includes(place)) throw new Error(`/${place} holds no files of its own`);
    mkdirSync(wanted, { recursive: true, mode: 0o700 });
    const real = realpathSync.native(wanted);
    realPaths.set(wanted, real);
    return real;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CellaError('INVALID_OPTIONS', `dataDir: ${wanted} cannot be used: ${reason}.`, { cause });
  }
}

/** Nothing of the host's own environment: no key, token or path of it reaches the code. */
function environmentFor(python: string, home: string, extra: Readonly<Record<string, string>>): Record<string, string> {
  return {
    PATH: [dirname(python), '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter),
    HOME: home,
    USER: 'cella',
    LOGNAME: 'cella',
    LANG: 'C.UTF-8',
    TMPDIR: '/tmp',
    MPLBACKEND: 'agg',
    ...extra,
  };
}
