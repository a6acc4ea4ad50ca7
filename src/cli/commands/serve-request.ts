/** The settings of a server from flags, variables and the config file. */

import { omitUndefined } from '../../lib/omit-undefined.ts';
import type { ServeSettings } from '../../settings/server-config.ts';
import type { Setting } from '../../settings/setting.ts';
import { serveSettings, settings } from '../../settings/settings-table.ts';
import { UsageError } from '../command-errors.ts';
import type { ServeRequest } from '../context.ts';
import { resolveSetting } from '../options.ts';
import { type Defaults, type PackageFlags, toPackageOptions } from '../session-flags.ts';
import { resolveStorage, type StorageFlags } from '../target-options.ts';

type ValueOf<S> = S extends Setting<infer T> ? T : never;
type OwnFlags = { readonly [N in keyof typeof serveSettings]?: ValueOf<(typeof serveSettings)[N]> };

export interface ServeFlags extends Omit<OwnFlags, 'noFlush'>, StorageFlags, PackageFlags {
  /** False where `--no-flush` was given. */
  readonly flush?: boolean;
  readonly python?: string;
  readonly tools?: string[];
}

const DEFAULT_PORT = 7710;
const DEFAULT_GRACE_MS = 10_000;

export function toServeRequest(flags: ServeFlags, defaults: Defaults): ServeRequest {
  const all = serveSettings;
  const the = <T>(setting: Setting<T>, given: T | undefined) => resolveSetting(setting, given, defaults);
  return {
    place: resolveStorage(flags, defaults),
    address: the(all.host, flags.host) ?? '127.0.0.1',
    port: the(all.port, flags.port) ?? DEFAULT_PORT,
    insecureHttp: the(all.insecureHttp, flags.insecureHttp) ?? false,
    names: (the(all.allowHost, flags.allowHost) ?? []).map((name) => name.toLowerCase()),
    membersMay: the(all.membersMay, flags.membersMay) ?? [],
    graceMs: the(all.grace, flags.grace) ?? DEFAULT_GRACE_MS,
    flushResults: !(the(all.noFlush, flags.flush === false ? true : undefined) ?? false),
    logLevel: the(all.logLevel, flags.logLevel) ?? 'info',
    ...tlsOf(flags, defaults),
    ...omitUndefined({
      advertise: the(all.advertise, flags.advertise),
      maxKernels: the(all.maxKernels, flags.maxKernels),
      idleMs: the(all.idle, flags.idle),
      maxAgents: the(all.maxAgents, flags.maxAgents),
      agentIdleMs: the(all.agentIdle, flags.agentIdle),
      agentStartMs: the(all.agentStart, flags.agentStart),
      agentStopMs: the(all.agentStop, flags.agentStop),
      agentTokenMs: the(all.agentTokenHours, flags.agentTokenHours),
      agentTokenUses: the(all.agentTokenUses, flags.agentTokenUses),
      rate: the(all.rate, flags.rate),
      logFile: the(all.logFile, flags.logFile),
      python: the(settings.python, flags.python),
      toolFolders: the(settings.tools, flags.tools),
      packages: toPackageOptions(flags, defaults),
    }),
    retention: omitUndefined({
      maxAgeMs: the(all.keepDays, flags.keepDays),
      maxBytes: the(all.keepMb, flags.keepMb),
      maxFileBytes: the(all.keepFilesMb, flags.keepFilesMb),
    }),
    quotas: omitUndefined({
      sessions: the(all.userSessions, flags.userSessions),
      liveKernels: the(all.userKernels, flags.userKernels),
      memoryMb: the(all.userMemory, flags.userMemory),
      executionsPerMinute: the(all.userExecutions, flags.userExecutions),
      storageBytes: the(all.userStorage, flags.userStorage),
      modelUsdPerDay: the(all.userBudget, flags.userBudget),
      modelTokensPerDay: the(all.userTokens, flags.userTokens),
    }),
    gateway: omitUndefined({
      keys: the(all.keys, flags.keys),
      providers: the(all.provider, flags.provider),
      models: the(all.models, flags.models),
      prices: the(all.price, flags.price),
      fields: the(all.providerField, flags.providerField),
      providerTools: the(all.providerTools, flags.providerTools),
      sessionUsd: the(all.sessionBudget, flags.sessionBudget),
      sessionTokens: the(all.sessionTokens, flags.sessionTokens),
    }),
  };
}

function tlsOf(flags: ServeFlags, defaults: Defaults): Pick<ServeSettings, 'tls'> {
  const certPath = resolveSetting(serveSettings.tlsCert, flags.tlsCert, defaults);
  const keyPath = resolveSetting(serveSettings.tlsKey, flags.tlsKey, defaults);
  if (certPath !== undefined && keyPath !== undefined) return { tls: { certPath, keyPath } };
  if (certPath === undefined && keyPath === undefined) return {};
  throw new UsageError('--tls-cert and --tls-key go together.', 'Give both, or neither.');
}
