/**
 * Every setting of Cella: its flag, its variable, its name in a config file, its default and its description. Flags, help and
 * config files come from this table; a test compares docs/settings.md with it. A flag wins over a variable, a variable over the file.
 */

import { executorKinds, keyModes } from '../protocol/enums.ts';
import * as types from './setting.ts';
import { notInFile, type Setting, secret, setting, settingsIn, withoutFlag } from './setting.ts';

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Sandbox options that members may request besides their own sandbox. Administrators may always. */
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
  prefix: setting('--prefix <text>', 'prefix of all keys in Redis', types.text, { defaultText: 'cella' }),
  agentKey: setting('--key <key>', 'the agent key that owns the kernel', types.text, {
    variable: 'CELLA_AGENT_KEY',
    defaultText: 'default',
  }),
};

const kernelSettings = {
  python: setting('--python <path>', 'Python interpreter, version 3.9 or later', types.program, {
    defaultText: 'python3',
  }),
  executor: setting(
    '--executor <name>',
    `where code runs: auto, ${executorKinds.join(', ')}`,
    types.oneOf(['auto', ...executorKinds] as const),
    { defaultText: 'auto, which is subprocess' },
  ),
  image: setting('--image <name>', 'the image, for the executor container', types.text, {
    defaultText: 'what `cella images build` made',
  }),
  engine: setting('--engine <address>', 'the address of Docker or Podman, for the executor container', types.text, {
    defaultText: 'DOCKER_HOST, the usual sockets',
  }),
  index: setting('--index <url>', 'the package index', types.text, { defaultText: 'PyPI', mayHoldPassword: true }),
  extraIndex: setting('--extra-index <url>', 'an additional index', types.urls, { mayHoldPassword: true }),
  wheels: setting('--wheels <dir>', 'a folder with wheels', types.paths),
  noIndex: setting('--no-index', 'use no index, only --wheels', types.onOff),
  tools: setting('--tools <dir>', 'a folder with more tool definitions', types.paths),
  maxSkills: withoutFlag(
    setting('--max-skills <n>', 'skills that each user may have', types.many, { default: '10000' }),
  ),
  maxArtifacts: withoutFlag(
    setting('--max-artifacts <n>', 'artifacts that each user may have', types.many, { default: '10000' }),
  ),
  autoSh: setting('--auto-sh', 'run shell commands of a chat without asking', types.onOff, { default: '' }),
};

const clientSettings = {
  url: setting('--url <address>', 'the address of a server', types.text, {
    defaultText: 'the server of the data folder',
  }),
  tokenFile: setting('--token-file <path>', 'a file with the token for the server', types.path),
  token: secret(
    'CELLA_TOKEN',
    'the token itself; there is no flag for it, and it cannot be in a config file',
    types.text,
  ),
  mcpToken: secret('CELLA_MCP_TOKEN', 'the token that clients of `cella mcp --http` must send', types.text),
  masterKey: secret(
    'CELLA_MASTER_KEY',
    'key that encrypts credentials: 32 bytes in base64 or hex; default: the file master-key in the data folder',
    types.text,
  ),
  oldMasterKey: secret('CELLA_OLD_MASTER_KEY', 'the previous master key, for `cella credentials rotate`', types.text),
  credential: secret('CELLA_CREDENTIAL_NAME', 'the secret NAME, for tools that use it', types.text),
};

/** The settings of a server. Names and units here are those in code: `ServerConfig` has the same fields. */
export const serverSettings = {
  host: setting(
    '--host <address>',
    'address to listen on; other addresses than loopback need --tls-cert, or --insecure-http',
    types.text,
    { default: '127.0.0.1' },
  ),
  port: setting('--port <port>', 'port to listen on; 0 picks a free one', types.port, { default: '7710' }),
  tlsCert: setting('--tls-cert <path>', 'TLS certificate, followed by its intermediate certificates', types.path),
  tlsKey: setting('--tls-key <path>', 'private key of the certificate', types.path),
  insecureHttp: setting(
    '--insecure-http',
    'listen without TLS on other addresses than loopback; for servers behind a proxy that handles TLS',
    types.onOff,
    { default: '' },
  ),
  allowHost: setting('--allow-host <name>', 'another host name that clients may use for this server', types.hostNames, {
    default: '',
  }),
  advertise: setting(
    '--advertise <url>',
    'address at which other servers on the same Redis reach this one, such as http://10.0.0.5:7710',
    types.text,
    { defaultText: 'its own address' },
  ),
  membersMay: setting(
    '--members-may <list>',
    `what members may ask for: ${privileges.join(', ')}; if the server runs as root, all of these except network make members root`,
    types.anyOf(privileges),
    { default: '' },
  ),
  allowRuntimeDeps: setting(
    '--no-runtime-deps',
    'lock the packages: no user and no code may add or remove any',
    types.offSwitch,
    { default: '' },
  ),
  maxKernels: setting('--max-kernels <n>', 'maximum number of live kernels', types.count, { default: '64' }),
  idleMs: setting('--idle <seconds>', 'how long until an idle kernel hibernates', types.seconds, { default: '600' }),
  runners: {
    maxRunners: setting('--max-runners <n>', 'maximum number of live runners of coding agents', types.count, {
      default: '8',
    }),
    idleMs: setting(
      '--runner-idle <seconds>',
      'how long an idle runner is kept for the next prompt; 0: not at all',
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
      'how many calls the session token of a turn may make: messages of the runner, calls to models, calls to the MCP server of the session',
      types.count,
    ),
  },
  graceMs: setting(
    '--grace <seconds>',
    'how long running code may continue when the server shuts down',
    types.seconds,
    { default: '10' },
  ),
  flushResults: setting(
    '--no-flush',
    'report results before they are on disk: faster, but a power failure can lose the latest ones',
    types.offSwitch,
    { default: '' },
  ),
  rate: setting(
    '--rate <n>',
    'requests per second that one token may send; a burst may have four times as many',
    types.count,
    { default: '500' },
  ),
  /** How much of each session's events stays; 0 is all. */
  retention: {
    maxAgeMs: setting('--keep-days <days>', 'how long events are kept; 0: forever', types.days, { default: '30' }),
    maxBytes: setting(
      '--keep-mb <mb>',
      'maximum size of the events of one session, in MB; 0: no limit',
      types.megabytesAsBytes,
      { default: '64' },
    ),
    maxFileBytes: setting(
      '--keep-files-mb <mb>',
      'maximum size of the output files of one session, in MB; 0: no limit',
      types.megabytesAsBytes,
      { default: '4096' },
    ),
  },
  /** For users that have none of their own. */
  quotas: {
    sessions: setting('--user-sessions <n>', 'default quota of a user: sessions', types.count, { default: '1000' }),
    liveKernels: setting('--user-kernels <n>', 'default quota of a user: live kernels', types.count),
    memoryMb: setting(
      '--user-memory <mb>',
      'default quota of a user: sum of the memory limits of live kernels',
      types.megabytes,
    ),
    executionsPerMinute: setting(
      '--user-executions <n>',
      'default quota of a user: executions per minute',
      types.count,
    ),
    storageBytes: setting(
      '--user-storage <mb>',
      'default quota of a user: size of workspaces, events, outputs, checkpoints, conversations, artifacts and skills',
      types.megabytesAsBytes,
    ),
    modelUsdPerDay: setting('--user-budget <usd>', 'default quota of a user: USD per day for models', types.dollars),
    modelTokensPerDay: setting('--user-tokens <n>', 'default quota of a user: model tokens per day', types.tokens),
  },
  /** How agents get to their models. */
  gateway: {
    keys: setting(
      '--keys <way>',
      `how agents reach models: ${keyModes.join(' or ')}; with just-in-time, the agent holds the key while it works`,
      types.oneOf(keyModes),
      { default: 'gateway' },
    ),
    providers: setting(
      '--provider <name=url>',
      'another address for a provider (anthropic, openai, gemini): https, or http on loopback',
      types.urls,
      { default: '' },
    ),
    models: setting(
      '--models <provider=model>',
      'a model that agents may use; * stands for any text. Providers without an entry allow all their models',
      types.words,
      { default: '' },
    ),
    fields: setting(
      '--provider-field <provider=name>',
      'a new field, type or beta in the API of a provider that the gateway should accept',
      types.words,
      { default: '' },
    ),
    providerTools: setting(
      '--provider-tools <when>',
      'which sessions may use features that make the provider reach other hosts (web search, remote MCP, image URLs): with-network (sessions with the network of the machine) or always',
      types.oneOf(providerToolModes),
      { default: 'with-network' },
    ),
    prices: setting(
      '--price <model=in/out/read/write>',
      'price of a model in USD per million tokens: input, output, cache reads, cache writes',
      types.words,
      { default: '' },
    ),
    sessionUsd: setting('--session-budget <usd>', 'how much one session may spend on models', types.dollars),
    sessionTokens: setting('--session-tokens <n>', 'how many model tokens one session may use', types.tokens),
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
  NO_COLOR: 'turns colours off if it is not empty',
  XDG_DATA_HOME: 'the data folder is `cella` in it, if --data and CELLA_DATA_DIR do not set it',
} as const;
