/**
 * Every setting of Cella: its flag, its variable, its name in a config file, its default and its description. Flags, help,
 * config files and docs/settings.md come from this table. A flag wins over a variable, a variable over the file.
 */

import { executorKinds, keyModes } from '../protocol/enums.ts';
import { logLevels, privileges, providerToolModes } from './server-config.ts';
import { notInFile, type Setting, secret, setting, withoutFlag } from './setting.ts';
import * as types from './value-types.ts';

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
    'what names and things are kept in',
    types.oneOf(['file', 'redis'] as const),
    { defaultText: 'file' },
  ),
  redis: setting('--redis <url>', 'the Redis server, such as redis://127.0.0.1:6379', types.text, {
    mayHoldPassword: true,
  }),
  prefix: setting('--prefix <text>', 'what every key there begins with', types.text, { defaultText: 'cella' }),
  agentKey: setting('--agent <key>', 'who owns the kernel', types.text, {
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
  extraIndex: setting('--extra-index <url>', 'another index besides', types.urls, { mayHoldPassword: true }),
  wheels: setting('--wheels <dir>', 'a folder with wheels in it', types.paths),
  noIndex: setting('--no-index', 'ask no index, take from --wheels alone', types.onOff),
  tools: setting('--tools <dir>', 'a folder with more definitions of tools', types.paths),
  maxSkills: withoutFlag(
    setting('--max-skills <n>', 'skills that each user may have', types.many, { defaultText: '10000' }),
  ),
  maxArtifacts: withoutFlag(
    setting('--max-artifacts <n>', 'artifacts that each user may have', types.many, { defaultText: '10000' }),
  ),
  autoSh: setting('--auto-sh', 'run shell commands of a chat without asking', types.onOff),
};

const clientSettings = {
  url: setting('--url <address>', 'the server to be asked', types.text, { defaultText: 'the one on the data folder' }),
  tokenFile: setting('--token-file <path>', 'a file with the token for it', types.path),
  token: secret('CELLA_TOKEN', 'the token itself; it stands in no file of settings, and in no flag', types.text),
  mcpToken: secret('CELLA_MCP_TOKEN', 'what clients of `cella mcp --http` must show', types.text),
  masterKey: secret(
    'CELLA_MASTER_KEY',
    'what credentials are encrypted with: 32 bytes in base64; else the file master-key in the data folder',
    types.text,
  ),
  oldMasterKey: secret('CELLA_OLD_MASTER_KEY', 'the one before, for `cella credentials rotate`', types.text),
  credential: secret('CELLA_CREDENTIAL_NAME', 'the secret NAME, for the tools that mention it', types.text),
};

const gatewaySettings = {
  keys: setting(
    '--keys <way>',
    `how agents get to models: ${keyModes.join(' or ')}; only with gateway do they hold no key`,
    types.oneOf(keyModes),
    { defaultText: 'gateway' },
  ),
  provider: setting(
    '--provider <name=url>',
    'where a provider (anthropic, openai, gemini) is, in place of its own address; https, or http on loopback',
    types.urls,
  ),
  models: setting(
    '--models <provider=model>',
    'a model that agents may use, with * for any text; all of a provider that has none here',
    types.words,
  ),
  providerField: setting(
    '--provider-field <provider=name>',
    'a field, type or beta that a provider has added to its API, for the gateway to let through',
    types.words,
  ),
  providerTools: setting(
    '--provider-tools <when>',
    'when agents may use what makes the provider reach other hosts (web search, remote MCP, image URLs): with-network, in sessions with the network of the machine, or always',
    types.oneOf(providerToolModes),
    { defaultText: 'with-network' },
  ),
  price: setting(
    '--price <model=in/out/read/write>',
    'USD for a million tokens of a model: input, output, read from the cache, written to it',
    types.words,
  ),
  sessionBudget: setting('--session-budget <usd>', 'what one session may spend on models', types.dollars),
  sessionTokens: setting('--session-tokens <n>', 'tokens that one session may use', types.tokens),
  userBudget: setting(
    '--user-budget <usd>',
    'what one user that has no quota of its own may spend on models a day',
    types.dollars,
  ),
  userTokens: setting('--user-tokens <n>', 'tokens that such a user may use a day', types.tokens),
};

export const serveSettings = {
  host: setting(
    '--host <address>',
    'where the server listens; another address than loopback needs a certificate, or --insecure-http',
    types.text,
    { defaultText: '127.0.0.1' },
  ),
  port: setting('--port <port>', 'its port, or 0 for any that is free', types.port, { defaultText: '7710' }),
  tlsCert: setting('--tls-cert <path>', 'a certificate, with those that vouch for it', types.path),
  tlsKey: setting('--tls-key <path>', 'its key', types.path),
  insecureHttp: setting('--insecure-http', 'another address without TLS: a proxy in front speaks it', types.onOff),
  allowHost: setting('--allow-host <name>', 'a name that the server goes by, beside its address', types.words),
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
  ),
  maxKernels: setting('--max-kernels <n>', 'kernels that may live at a time', types.count, { defaultText: '64' }),
  idle: setting('--idle <seconds>', 'how long until an idle kernel sleeps', types.seconds, { defaultText: '600' }),
  maxAgents: setting('--max-agents <n>', 'executors of coding agents that may live at a time', types.count, {
    defaultText: '8',
  }),
  agentIdle: setting(
    '--agent-idle <seconds>',
    'how long the executor of an agent is kept for the next prompt',
    types.secondsOfDay,
    { defaultText: '300' },
  ),
  agentStart: setting('--agent-start <seconds>', 'how long an executor may take to be there', types.secondsOfDay, {
    defaultText: '60',
  }),
  agentStop: setting(
    '--agent-stop <seconds>',
    'how long a turn that is stopped has to end, before its executor is ended',
    types.secondsOfDay,
    { defaultText: '10' },
  ),
  agentTokenHours: setting(
    '--agent-token-hours <hours>',
    'how long the session token of a turn is good; the turn ends with it',
    types.hours,
    { defaultText: '24' },
  ),
  agentTokenUses: setting(
    '--agent-token-uses <n>',
    'calls that the session token of a turn is good for: of its executor, and to models and the kernel',
    types.count,
  ),
  grace: setting('--grace <seconds>', 'how long running code has when the server ends', types.seconds, {
    defaultText: '10',
  }),
  noFlush: setting(
    '--no-flush',
    'tell results before they are on the disk: faster, and a loss of power may lose the last ones',
    types.onOff,
  ),
  rate: setting('--rate <n>', 'requests a second that one token may send; four times as many at once', types.count, {
    defaultText: '500',
  }),
  keepDays: setting('--keep-days <days>', 'how long events are kept; 0 is for ever', types.days, { defaultText: '30' }),
  keepMb: setting('--keep-mb <mb>', 'how much of the events of one session is kept; 0 is all', types.megabytesAsBytes, {
    defaultText: '64',
  }),
  keepFilesMb: setting(
    '--keep-files-mb <mb>',
    'the same for output that was too large for an event',
    types.megabytesAsBytes,
    { defaultText: '4096' },
  ),
  userSessions: setting('--user-sessions <n>', 'sessions of one user that has no quota of its own', types.count, {
    defaultText: '1000',
  }),
  userKernels: setting('--user-kernels <n>', 'live kernels of such a user', types.count),
  userMemory: setting('--user-memory <mb>', 'the memory limits of these together', types.megabytes),
  userExecutions: setting('--user-executions <n>', 'executions a minute of such a user', types.count),
  userStorage: setting(
    '--user-storage <mb>',
    'workspaces, events, outputs, checkpoints, conversations, artifacts and skills of such a user',
    types.megabytesAsBytes,
  ),
  ...gatewaySettings,
  logLevel: setting('--log-level <level>', logLevels.join(', '), types.oneOf(logLevels), { defaultText: 'info' }),
  logFile: setting('--log-file <path>', 'where logs go instead of stderr', types.path),
};

export const settings = { ...storageSettings, ...kernelSettings, ...clientSettings, ...serveSettings };

export const allSettings: readonly Setting[] = Object.values<Setting>(settings);

/** What others have defined, and is heeded here. */
export const borrowedVariables = {
  DOCKER_HOST: 'the container engine, where --engine, CELLA_ENGINE and the file say nothing',
  NO_COLOR: 'any text turns colours off',
  XDG_DATA_HOME: 'the data folder is `cella` in it, where --data and CELLA_DATA_DIR say nothing',
} as const;
