/** The options of a session: their schema and checks, and a cache of options that were checked before. */

import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { PackageSource } from '../namespaces/deps/package-source.ts';
import type { CredentialLookup } from '../namespaces/tools/tool-credentials.ts';
import type { CodeRefusal } from '../protocol/access-models.ts';
import { isReservedKey } from '../protocol/enums.ts';
import { FolderId } from '../protocol/environment-spec.ts';
import { invalidOptions, parseOptions } from '../protocol/parse.ts';
import type { Approve } from '../protocol/permission.ts';
import {
  AgentKey,
  milliseconds,
  SessionSettings,
  TransactionPolicy,
  text,
  UserAgentKey,
} from '../protocol/session-info.ts';
import type { Storage } from '../storage/contract.ts';

const moduleName = z.string().regex(/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/, 'must be the name of a Python module');

const callback = <T>() => z.custom<T>((value) => typeof value === 'function', 'must be a function').optional();

export const SessionOptions = z.strictObject({
  agentKey: AgentKey.prefault(''),
  ...SessionSettings.shape,
  /** For `container`: the address of Docker or Podman (`unix:///run/docker.sock`), in place of the usual ones. */
  engine: text.min(1).optional(),
  /** A Python 3.9 or later: a path, or a name on PATH. */
  python: text.min(1).optional(),
  dataDir: text.min(1).optional(),
  /** Whether links in the paths of `cwd` and of the sandbox's folders are followed. `refused` is for paths without any. */
  folderLinks: z.enum(['followed', 'refused']).default('followed'),
  /** The recorded identities of those folders, by path. */
  folderIds: z.record(z.string(), FolderId).optional(),
  /** How long the template process may take to start, including all preloaded modules. */
  startTimeoutMs: z.int().min(100).max(2_147_483_647).default(60_000),
  /** Modules that the template imports once, so that they are loaded in every kernel. */
  preload: z.array(moduleName).default([]),
  /** Whether variables are saved, and restored after a crash, a restart or a reboot. */
  persist: z.boolean().default(true),
  /** The storage for variables, tools, skills, artifacts and deps, in place of the data folder. The caller closes it. */
  storage: z
    .custom<Storage>(
      (value) => typeof value === 'object' && value !== null && 'toBootstrapConfig' in value,
      'must be a storage',
    )
    .optional(),
  /** Folders with tool definitions (`*.yaml`), in addition to those in storage. */
  toolFolders: z.array(text.min(1)).max(64).default([]),
  /** Called before a tool runs that requires approval. Without it such calls are refused. */
  approve: callback<Approve>(),
  /** Returns the secret with a name that a tool's definition mentions. Only the tool gets it. */
  credentials: callback<CredentialLookup>(),
  /** Called with the progress of packages that are installed before the first cell. */
  onProgress: callback<(text: string) => void>(),
  /** Called before each call of the code to `tools`, `skills`, `artifacts` or `deps`. Its errors are raised in the code. */
  admitCall: callback<() => Promise<void>>(),
  /** Called for each refused action of the code: hosts, calls, frames that break the protocol. */
  onRefused: callback<(refusal: CodeRefusal) => void>(),
  /** The source of packages. Defaults to PyPI. */
  packages: PackageSource.prefault({}),
  /** Sandboxes kept ready for the next session. */
  spares: z.int().min(0).max(64).default(0),
});

/** As the caller writes them. */
export type SessionOptions = z.input<typeof SessionOptions>;
/** Checked, with every default filled in. */
export type CheckedOptions = z.output<typeof SessionOptions>;

const ExecuteOptions = z.object({
  timeoutMs: milliseconds.optional(),
  inputTimeoutMs: milliseconds.optional(),
  transaction: TransactionPolicy.optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

/** A fork replaces what its key had, so the key must be named. */
const ForkOptions = z.strictObject({
  agentKey: text.max(1024).refine((key) => key.trim() !== '', 'must not be blank'),
  from: z.string().optional(),
  replace: z.boolean().optional(),
});

const CheckpointOptions = z.strictObject({
  name: z
    .string()
    .max(200, 'must have 1 to 200 characters')
    .refine((name) => name.trim() !== '', 'must have 1 to 200 characters')
    .refine((name) => name.isWellFormed(), 'must not contain a lone surrogate')
    .optional(),
  durable: z.boolean().default(false),
});

const OwnKeyOnly = z.object({ agentKey: UserAgentKey.optional() });

/** Options of a fork that replace those of its parent. */
export type ForkOverrides = Pick<SessionOptions, 'storage' | 'approve' | 'onProgress' | 'onRefused' | 'admitCall'>;

/** For callers of the library: keys that start with ~ belong to the users of a server. */
export function checkOwnKey(agentKey: unknown): void {
  // Other problems are found when all options are checked.
  if (typeof agentKey === 'string' && isReservedKey(agentKey)) parseOptions(OwnKeyOnly, { agentKey });
}

export function checkForkOptions(options: unknown): z.output<typeof ForkOptions> {
  return parseOptions(ForkOptions, options);
}

export function checkCheckpointOptions(options: unknown): z.output<typeof CheckpointOptions> {
  return parseOptions(CheckpointOptions, options);
}

export function checkOptions(options: unknown): CheckedOptions {
  const known = optionsCache.find(options);
  if (known) {
    const own = SessionOptions.shape.agentKey.safeParse((options as SessionOptions).agentKey);
    // A wrong key is reported by the full check below.
    if (own.success) return { ...known, agentKey: own.data };
  }
  const checked = parseOptions(SessionOptions, options);
  const problems = contradictions(checked, options as SessionOptions);
  if (problems.length === 0) {
    optionsCache.add(options, { ...checked });
    return checked;
  }
  throw invalidOptions(problems);
}

/** Options that contradict each other, or that this executor does not support. `given`: before defaults. */
function contradictions({ executor, sandbox, image, engine, python }: CheckedOptions, given: SessionOptions): string[] {
  const problems: string[] = [];
  const contained = executor === 'container';
  if (!contained && image !== undefined) problems.push('image: only the executor `container` has images');
  if (!contained && engine !== undefined) problems.push('engine: only the executor `container` has one');
  if (contained && sandbox === 'off') problems.push('sandbox: cannot be off with the executor `container`');
  if (!contained && executor !== 'in-process' && given.limits?.cpus !== undefined) {
    problems.push('limits.cpus: only the executor `container` supports it');
  }
  if ((contained || executor === 'in-process') && python !== undefined) {
    problems.push(`python: ${executor} brings its own`);
  }
  if (executor === 'in-process') {
    if (typeof sandbox === 'object') problems.push('sandbox: `in-process` has none; it is only for trusted code');
    const kept = Object.keys(given.limits ?? {}).filter((name) => name !== 'memoryMb');
    if (kept.length > 0) problems.push(`limits: \`in-process\` keeps memoryMb only, not ${kept.join(', ')}`);
  } else if (sandbox === 'off' && given.limits !== undefined) {
    problems.push('limits: cannot be enforced without a sandbox; leave them out, or turn the sandbox on');
  }
  return problems;
}

export function checkExecuteOptions(options: unknown): z.output<typeof ExecuteOptions> {
  return parseOptions(ExecuteOptions, options);
}

/** A program opens its sessions with few different options. */
const MAX_ENTRIES = 4;
/** No option is nested deeper. */
const MAX_DEPTH = 8;

type Plain = Record<PropertyKey, unknown>;

interface CacheEntry<T> {
  /** A copy of what the caller wrote. */
  readonly given: Plain;
  readonly checked: T;
}

/** Checked options by what was written. `own`: the option that differs from session to session and is checked each time. */
export class CheckedOptionsCache<T extends object> {
  readonly #own: string;
  #entries: readonly CacheEntry<T>[] = [];

  constructor(own: string) {
    this.#own = own;
  }

  /** The checked form of the same options. */
  find(options: unknown): T | undefined {
    const given = this.#comparable(options);
    return given && this.#entries.find((entry) => isDeepStrictEqual(entry.given, given))?.checked;
  }

  add(options: unknown, checked: T): void {
    const given = this.#comparable(options);
    if (!given) return;
    // Frozen, because sessions share it.
    const entry = { given: structuredClone(given), checked: freezeDeep(checked) };
    this.#entries = [entry, ...this.#entries.slice(0, MAX_ENTRIES - 1)];
  }

  /** Only plain data is cached: other values cannot be compared. */
  #comparable(options: unknown): Plain | undefined {
    if (!isRecord(options) || !isPlain(options, 0)) return undefined;
    const { [this.#own]: _, ...given } = options;
    return given;
  }
}

function isRecord(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype;
}

function isPlain(value: unknown, depth: number): boolean {
  if (depth > MAX_DEPTH) return false;
  if (isList(value)) return value.every((item) => isPlain(item, depth + 1));
  if (!isRecord(value)) return value === null || (typeof value !== 'object' && typeof value !== 'function');
  // Hidden and symbol names would not be compared.
  const names = Reflect.ownKeys(value);
  return names.length === Object.keys(value).length && names.every((name) => isPlain(value[name], depth + 1));
}

function freezeDeep<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (isList(part) || isRecord(part)) freezeDeep(part);
  return Object.freeze(value);
}

const optionsCache = new CheckedOptionsCache<CheckedOptions>('agentKey');
