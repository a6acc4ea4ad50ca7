/**
 * Every setting of Cella: its flag, its variable, its name in a config file, its default and what it is for. Flags, help,
 * config files and docs/settings.md are made of this table. A flag wins over a variable, a variable over the file.
 */

import { executorKinds } from '../protocol/enums.ts';
import * as kinds from './kinds.ts';
import { serveSettings } from './serve-settings.ts';
import { ofNoFile, ofNoFlag, type Setting, secret, setting } from './setting.ts';

const keptSettings = {
  config: ofNoFile(
    setting('--config <file>', 'a file with settings', kinds.path, { otherwise: 'config.yaml in the data folder' }),
  ),
  dataDir: setting('--data <dir>', 'where Cella keeps its files', kinds.path, {
    variable: 'CELLA_DATA_DIR',
    otherwise: '~/.local/share/cella',
  }),
  storage: setting(
    '--storage <file|redis>',
    'what names and things are kept in',
    kinds.oneOf(['file', 'redis'] as const),
    { otherwise: 'file' },
  ),
  redis: setting('--redis <url>', 'the Redis server, such as redis://127.0.0.1:6379', kinds.text, {
    mayHoldPassword: true,
  }),
  prefix: setting('--prefix <text>', 'what every key there begins with', kinds.text, { otherwise: 'cella' }),
  agentKey: setting('--agent <key>', 'who owns the kernel', kinds.text, {
    variable: 'CELLA_AGENT_KEY',
    otherwise: 'default',
  }),
};

const codeSettings = {
  python: setting('--python <path>', 'a Python 3.9 or later', kinds.program, { otherwise: 'python3' }),
  executor: setting(
    '--executor <name>',
    `where code runs: auto, ${executorKinds.join(', ')}`,
    kinds.oneOf(['auto', ...executorKinds] as const),
    { otherwise: 'auto, which is subprocess' },
  ),
  image: setting('--image <name>', 'for container: the image', kinds.text, {
    otherwise: 'what `cella image build` made',
  }),
  engine: setting('--engine <address>', 'for container: where Docker or Podman listens', kinds.text, {
    otherwise: 'DOCKER_HOST, the usual sockets',
  }),
  index: setting('--index <url>', 'the package index', kinds.text, { otherwise: 'PyPI', mayHoldPassword: true }),
  extraIndex: setting('--extra-index <url>', 'another index besides', kinds.urls, { mayHoldPassword: true }),
  wheels: setting('--wheels <dir>', 'a folder with wheels in it', kinds.paths),
  noIndex: setting('--no-index', 'ask no index, take from --wheels alone', kinds.onOff),
  tools: setting('--tools <dir>', 'a folder with more definitions of tools', kinds.paths),
  maxSkills: ofNoFlag(
    setting('--max-skills <n>', 'skills that each user may have', kinds.many, { otherwise: '10000' }),
  ),
  maxArtifacts: ofNoFlag(
    setting('--max-artifacts <n>', 'artifacts that each user may have', kinds.many, { otherwise: '10000' }),
  ),
  autoSh: setting('--auto-sh', 'run shell commands of a chat without asking', kinds.onOff),
};

const clientSettings = {
  url: setting('--url <address>', 'the server to be asked', kinds.text, { otherwise: 'the one on the data folder' }),
  tokenFile: setting('--token-file <path>', 'a file with the token for it', kinds.path),
  token: secret('CELLA_TOKEN', 'the token itself; it stands in no file of settings, and in no flag', kinds.text),
  mcpToken: secret('CELLA_MCP_TOKEN', 'what clients of `cella mcp --http` must show', kinds.text),
  masterKey: secret(
    'CELLA_MASTER_KEY',
    'what credentials are encrypted with: 32 bytes in base64; else the file master-key in the data folder',
    kinds.text,
  ),
  oldMasterKey: secret('CELLA_OLD_MASTER_KEY', 'the one before, for `cella credentials rotate`', kinds.text),
  credential: secret('CELLA_CREDENTIAL_NAME', 'the secret NAME, for the tools that mention it', kinds.text),
};

export const settings = { ...keptSettings, ...codeSettings, ...clientSettings, ...serveSettings };

export const allSettings: readonly Setting[] = Object.values<Setting>(settings);

/** What others have defined, and is heeded here. */
export const borrowedVariables = {
  DOCKER_HOST: 'the container engine, where --engine, CELLA_ENGINE and the file say nothing',
  NO_COLOR: 'any text turns colours off',
  XDG_DATA_HOME: 'the data folder is `cella` in it, where --data and CELLA_DATA_DIR say nothing',
} as const;
