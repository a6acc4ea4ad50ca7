/**
 * Every setting of Cella: its flag, its variable, its name in a config file, its default and its description. Flags, help and
 * config files come from this table; a test compares docs/settings.md with it. A flag wins over a variable, a variable over the file.
 */

import { executorKinds, keyModes } from '../protocol/enums.ts';
import { notInFile, type Setting, secret, setting, settingsIn, withoutFlag } from './setting.ts';
import * as types from './value-types.ts';

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** What members may ask for beside a sandbox of their own; administrators may in any case. */
const privileges = ['in-process', 'unsandboxed', 'network', 'folders'] as const;
export type Privilege = (typeof privileges)[number];

/** `with-network`: in sessions whose agent has the network of the machine itself. */
const providerToolModes = ['with-network', 'always'] as const;
export type ProviderToolMode = (typeof providerToolModes)[number];

const storageSettings = {
  config: notInFile(
    setting('--config <file>', 'a file with settings', types.path, { defaultText: 'config.yaml in the data folder' }),
  ),
  dataDir: setting('--data <dir>', 'where Cella keeps its files', types.path, {
    variable: 'CELLA_DATA_DIR',
    defaultText: '~/.local/share/cella',
  }),
  storage: setting(
    '--storage <file|redis>',
    'where data is kept: in files of the data folder, or in Redis',
    types.oneOf(['file', 'redis'] as const),
    { default: 'file' },
  ),
  redis: setting('--redis <url>', 'the Redis server, such as redis://127.0.0.1:6379', types.text, {
    mayHoldPassword: true,
  }),
  prefix: setting('--prefix <text>', 'what every key in Redis begins with', types.text, { defaultText: 'cella' }),
  agentKey: setting('--agent <key>', 'the agent key that owns the kernel', types.text, {
    variable: 'CELLA_AGENT_KEY',
    defaultText: 'default',
  }),
};

const kernelSettings = {
  python: setting('--python <path>', 'a Python 3.9 or later', types.program, { defaultText: 'python3' }),
  executor: setting(
    '--executor <name>',
    `where code runs: auto, ${executorKinds.join(', ')}`,
    types.oneOf(['auto', ...executorKinds] as const),
    { defaultText: 'auto, which is subprocess' },
  ),
  image: setting('--image <name>', 'for container: the image', types.text, {
    defaultText: 'what `cella images build` made',
  }),
  engine: setting('--engine <address>', 'for container: where Docker or Podman listens', types.text, {
    defaultText: 'DOCKER_HOST, the usual sockets',
  }),
  index: setting('--index <url>', 'the package index', types.text, { defaultText: 'PyPI', mayHoldPassword: true }),
  extraIndex: setting('--extra-index <url>', 'an additional index', types.urls, { mayHoldPassword: true }),
  wheels: setting('--wheels <dir>', 'a folder with wheels in it', types.paths),
  noIndex: setting('--no-index', 'use no index, only --wheels', types.onOff),
  tools: setting('--tools <dir>', 'a folder with more tool definitions', types.paths),
  maxSkills: withoutFlag(
    setting('--max-skills <n>', 'skills that each user may have', types.many, { default: '10000' }),
  ),
  maxArtifacts: withoutFlag(
    setting('--max-artifacts <n>', 'artifacts that each user may have', types.many, { default: '10000' }),
  ),
  autoSh: setting('--auto-sh', 'run shell commands of a chat without asking', types.onOff),
};

const clientSettings = {
  url: setting('--url <address>', 'the address of a server', types.text, { defaultText: 'the one on the data folder' }),
  tokenFile: setting('--token-file <path>', 'a file with the token for it', types.path),
  token: secret(
    'CELLA_TOKEN',
    'the token itself; there is no flag for it, and it cannot be in a config file',
    types.text,
  ),
  mcpToken: secret('CELLA_MCP_TOKEN', 'the token that clients of `cella mcp --http` must send', types.text),
  masterKey: secret(
    'CELLA_MASTER_KEY',
    'what credentials are encrypted with: 32 bytes in base64; else the file master-key in the data folder',
    types.text,
  ),
  oldMasterKey: secret('CELLA_OLD_MASTER_KEY', 'the previous one, for `cella credentials rotate`', types.text),
  credential: secret('CELLA_CREDENTIAL_NAME', 'the secret NAME, for tools that use it', types.text),
};

/** The settings of a server. Names and units here are those in code: `ServerConfig` has the same fields. */
export const serverSettings = {
  host: setting(
    '--host <address>',
    'where the server listens; another address than loopback needs a certificate, or --insecure-http',
    types.text,
    { default: '127.0.0.1' },
  ),
  port: setting('--port <port>', 'its port, or 0 for any that is free', types.port, { default: '7710' }),
  tlsCert: setting('--tls-cert <path>', 'a certificate, with those that vouch for it', types.path),
  tlsKey: setting('--tls-key <path>', 'its key', types.path),
  insecureHttp: setting('--insecure-http', 'another address without TLS: a proxy in front speaks it', types.onOff, {
    default: '',
  }),
  allowHost: setting('--allow-host <name>', 'a name that the server goes by, beside its address', types.hostNames, {
    default: '',
  }),
  advertise: setting(
    '--advertise <url>',
    'where other servers on the same Redis reach it, such as http://10.0.0.5:7710',
    types.text,
    { defaultText: 'its own address' },
  ),
  membersMay: setting(
    '--members-may <list>',
    `what members may ask for: ${privileges.join(', ')}; on a root host, all but network amount to root`,
    types.anyOf(privileges),
    { default: '' },
  ),
  maxKernels: setting('--max-kernels <n>', 'kernels that may live at a time', types.count, { default: '64' }),
  idleMs: setting('--idle <seconds>', 'how long until an idle kernel hibernates', types.seconds, { default: '600' }),
  runners: {
    maxRunners: setting('--max-runners <n>', 'runners of coding agents that may live at a time', types.count, {
      default: '8',
    }),
    idleMs: setting(
      '--runner-idle <seconds>',
      'how long a runner is kept for the next prompt; 0 keeps none',
      types.secondsOrNone,
      { default: '300' },
    ),
    startMs: setting('--runner-start <seconds>', 'how long a runner may take to start', types.secondsOfDay, {
      default: '60',
    }),
    stopMs: setting(
      '--runner-stop <seconds>',
      'how long a turn may take to stop, before its runner is killed',
      types.secondsOfDay,
      { default: '10' },
    ),
    tokenMs: setting(
      '--turn-token-hours <hours>',
      'how long the session token of a turn is valid; the turn ends with it',
      types.hours,
      { default: '24' },
    ),
    tokenUses: setting(
      '--turn-token-uses <n>',
      'calls that the session token of a turn is valid for: of its runner, and to models and the kernel',
      types.count,
    ),
  },
  graceMs: setting('--grace <seconds>', 'how long running code has when the server shuts down', types.seconds, {
    default: '10',
  }),
  flushResults: setting(
    '--no-flush',
    'report results before they are on the disk: faster, but a loss of power may lose the last ones',
    types.offSwitch,
    { default: '' },
  ),
  rate: setting('--rate <n>', 'requests a second that one token may send; four times as many at once', types.count, {
    default: '500',
  }),
  /** How much of each session's events stays; 0 is all. */
  retention: {
    maxAgeMs: setting('--keep-days <days>', 'how long events are kept; 0 is for ever', types.days, { default: '30' }),
    maxBytes: setting(
      '--keep-mb <mb>',
      'how much of the events of one session is kept; 0 is all',
      types.megabytesAsBytes,
      { default: '64' },
    ),
    maxFileBytes: setting(
      '--keep-files-mb <mb>',
      'the same for output that was too large for an event',
      types.megabytesAsBytes,
      { default: '4096' },
    ),
  },
  /** For users that have none of their own. */
  quotas: {
    sessions: setting('--user-sessions <n>', 'sessions of one user that has no quota of its own', types.count, {
      default: '1000',
    }),
    liveKernels: setting('--user-kernels <n>', 'live kernels of such a user', types.count),
    memoryMb: setting('--user-memory <mb>', 'the memory limits of these together', types.megabytes),
    executionsPerMinute: setting('--user-executions <n>', 'executions a minute of such a user', types.count),
    storageBytes: setting(
      '--user-storage <mb>',
      'workspaces, events, outputs, checkpoints, conversations, artifacts and skills of such a user',
      types.megabytesAsBytes,
    ),
    modelUsdPerDay: setting('--user-budget <usd>', 'what such a user may spend on models a day', types.dollars),
    modelTokensPerDay: setting('--user-tokens <n>', 'tokens that such a user may use a day', types.tokens),
  },
  /** How agents get to their models. */
  gateway: {
    keys: setting(
      '--keys <way>',
      `how agents get to models: ${keyModes.join(' or ')}; only with gateway do they hold no key`,
      types.oneOf(keyModes),
      { default: 'gateway' },
    ),
    providers: setting(
      '--provider <name=url>',
      'where a provider (anthropic, openai, gemini) is, in place of its own address; https, or http on loopback',
      types.urls,
      { default: '' },
    ),
    models: setting(
      '--models <provider=model>',
      'a model that agents may use, with * for any text; all of a provider that has none here',
      types.words,
      { default: '' },
    ),
    fields: setting(
      '--provider-field <provider=name>',
      'a field, type or beta that a provider has added to its API, for the gateway to let through',
      types.words,
      { default: '' },
    ),
    providerTools: setting(
      '--provider-tools <when>',
      'when agents may use what makes the provider reach other hosts (web search, remote MCP, image URLs): with-network, in sessions with the network of the machine, or always',
      types.oneOf(providerToolModes),
      { default: 'with-network' },
    ),
    prices: setting(
      '--price <model=in/out/read/write>',
      'USD for a million tokens of a model: input, output, read from the cache, written to it',
      types.words,
      { default: '' },
    ),
    sessionUsd: setting('--session-budget <usd>', 'what one session may spend on models', types.dollars),
    sessionTokens: setting('--session-tokens <n>', 'tokens that one session may use', types.tokens),
  },
  logLevel: setting('--log-level <level>', logLevels.join(', '), types.oneOf(logLevels), { default: 'info' }),
  logFile: setting('--log-file <path>', 'where logs go instead of stderr', types.path),
};

export const settings = { ...storageSettings, ...kernelSettings, ...clientSettings };

export const allSettings: readonly Setting[] = [settings, serverSettings].flatMap((group) =>
  settingsIn(group).map(([, setting]) => setting),
);

/** Variables of other programs that Cella uses. */
export const borrowedVariables = {
  DOCKER_HOST: 'the container engine, if --engine, CELLA_ENGINE and the file do not set it',
  NO_COLOR: 'any text turns colours off',
  XDG_DATA_HOME: 'the data folder is `cella` in it, if --data and CELLA_DATA_DIR do not set it',
} as const;
