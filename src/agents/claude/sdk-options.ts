/** Loads Claude's SDK, and builds the options and the temporary folder with which it starts the program for one turn. */

import { type ChildProcess, spawn } from 'node:child_process';
import { access, constants, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { z } from 'zod';
import { isStopped } from '../../lib/process-identity.ts';
import { type AgentProfile, type McpServer, ProfileName } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PermissionMode } from '../../protocol/turn.ts';
import type { AgentSetup, AgentTurn } from '../agent-adapter.ts';
import { CONVERSATIONS, conversationsDir, makeFolder } from './conversation-files.ts';
import { claudeProgram } from './program.ts';
import { toolGuard } from './tool-permission.ts';

/**
 * In "auto mode", a verdict of the provider (`safeguard_results`) replaces the person's permission, and plan mode behaves like
 * auto mode by default. These settings turn it off in every mode. Skills of a profile run no shell commands by themselves. The
 * program's own skills do, so they are off.
 */
const SETTINGS = {
  disableAutoMode: 'disable',
  useAutoModeDuringPlan: false,
  disableSkillShellExecution: true,
  disableBundledSkills: true,
  permissions: { disableAutoMode: 'disable' },
};

/** The first after stdin, stdout and stderr. */
const KEY_DESCRIPTOR = 3;

/** The program's tools if a turn names none. Tools of later versions must be added here. */
const TOOLS = [
  ...['Read', 'Glob', 'Grep', 'Write', 'Edit', 'NotebookEdit', 'Bash', 'WebFetch', 'WebSearch'],
  ...['Agent', 'Skill', 'TodoWrite', 'ToolSearch', 'AskUserQuestion', 'ExitPlanMode'],
  ...['ListMcpResourcesTool', 'ReadMcpResourceTool'],
];

/** Tools that change the mode or the folder of a turn without asking, and tools whose work outlives the turn. */
const NOT_AVAILABLE = ['EnterPlanMode', 'EnterWorktree', 'ExitWorktree', 'Monitor', 'ScheduleWakeup'];

interface SdkOptionParts {
  readonly canUseTool: CanUseTool;
  readonly onStderr: (text: string) => void;
  readonly folder: Pick<TurnFolder, 'configDir' | 'prelude'>;
  /** The folder with the profile's skills and commands, if it has any. */
  readonly pluginDir: string | undefined;
}

export function sdkOptions(
  setup: AgentSetup,
  turn: AgentTurn,
  parts: SdkOptionParts,
): Readonly<Record<string, unknown>> {
  const { cwd, profile } = setup;
  const { mode, model, tools, conversation } = turn;
  const readable = [conversationsDir(setup), ...(parts.pluginDir === undefined ? [] : [parts.pluginDir])];
  const guarded = { workspace: cwd, readable };
  return {
    cwd,
    env: processEnv(setup, turn, parts),
    // No settings from the workspace or home: a file there could allow itself anything.
    settingSources: [],
    strictMcpConfig: true,
    includePartialMessages: true,
    forwardSubagentText: true,
    permissionMode: nativeMode(mode),
    settings: SETTINGS,
    ...(mode === 'bypass'
      ? { allowDangerouslySkipPermissions: true }
      : { canUseTool: parts.canUseTool, hooks: { PreToolUse: [toolGuard(mode, guarded)] } }),
    systemPrompt: systemPromptOf(profile),
    agents: mapValues(profile.subagents ?? {}, (subagent) => subagent),
    plugins: parts.pluginDir && [{ type: 'local', path: parts.pluginDir, skipMcpDiscovery: true }],
    model,
    tools: [...(tools ?? TOOLS)],
    disallowedTools: NOT_AVAILABLE,
    resume: conversation,
    spawnClaudeCodeProcess: (options: ProcessOptions) => startProgram(options, setup.model.key, parts.onStderr),
  };
}

/** Sent over stdin, because they may hold secrets and every user of a machine can read arguments. */
export function mcpServers(setup: AgentSetup): Record<string, unknown> {
  return mapValues(setup.profile.mcpServers ?? {}, (server) => toServer(server, setup));
}

interface ProcessOptions {
  readonly command: string;
  readonly args: string[];
  readonly cwd?: string;
  readonly env: Record<string, string | undefined>;
  readonly signal: AbortSignal;
}

/** The program reads the key from a descriptor and closes it, so that no argument, variable or child process has it. */
function startProgram(
  { command, args, cwd, env, signal }: ProcessOptions,
  key: string,
  onStderr: (text: string) => void,
): ChildProcess {
  const child = spawn(command, args, { cwd, env, signal, stdio: ['pipe', 'pipe', 'pipe', 'pipe'] });
  child.stderr?.setEncoding('utf8').on('data', onStderr);
  killIfStopped(child, onStderr);
  const keyPipe = child.stdio[KEY_DESCRIPTOR];
  // The program may exit before it reads the key.
  keyPipe?.on('error', () => {});
  if (keyPipe && 'end' in keyPipe) keyPipe.end(`${key}\n`);
  return child;
}

const STOPPED_CHECK_MS = 5000;

/** A command of the turn can stop the program for good: nothing would end the turn. */
function killIfStopped(child: ChildProcess, onStderr: (text: string) => void): void {
  let before = false;
  const check = setInterval(() => {
    const stopped = child.pid !== undefined && isStopped(child.pid);
    if (stopped && before) {
      onStderr('It was stopped (SIGSTOP) and did not continue.\n');
      child.kill('SIGKILL');
    }
    before = stopped;
  }, STOPPED_CHECK_MS).unref();
  child.once('exit', () => clearInterval(check));
}

/** The complete environment: nothing is inherited. */
function processEnv(setup: AgentSetup, { mode }: AgentTurn, { folder }: SdkOptionParts): Record<string, string> {
  const { env, model } = setup;
  return {
    ...env,
    // Its shell would run files from a home that kernel code can write to. Only commands get that home.
    HOME: NO_HOME,
    CLAUDE_ENV_FILE: folder.prelude,
    CLAUDE_CONFIG_DIR: folder.configDir,
    ANTHROPIC_BASE_URL: model.baseUrl,
    CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR: String(KEY_DESCRIPTOR),
    // Runs before each command, hook and stdio server: see `confineScript`.
    CLAUDE_CODE_SHELL_PREFIX: confineScript,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    // Memories are written without asking, and kernel code could plant some.
    CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
    // Nothing may run after the turn.
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
    CLAUDE_CODE_DISABLE_CRON: '1',
    // To write these instructions, it would run `git status`, and with it commands of the workspace's git configuration.
    CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS: '1',
    CLAUDE_CODE_DISABLE_WORKFLOWS: '1',
    // One to-do list, written as a whole each time: the plan.
    CLAUDE_CODE_ENABLE_TODO_TOOLS: '1',
    CLAUDE_CODE_ENABLE_TASKS: '0',
    // Root may bypass permissions only in a sandbox, and this mode is allowed only there.
    ...(mode === 'bypass' ? { IS_SANDBOX: '1' } : {}),
  };
}

/** Rendered for each turn, so that a changed profile applies at once. */
function systemPromptOf({ systemPrompt, rules = {} }: AgentProfile) {
  const parts = [systemPrompt, ...Object.entries(rules).map(([name, text]) => `# ${name}\n\n${text}`)];
  const append = parts.filter((part) => part !== undefined && part !== '').join('\n\n');
  return { type: 'preset', preset: 'claude_code', snapshot: false, append: append || undefined };
}

/** Always loaded, because not every model searches for tools. */
function toServer(server: McpServer, { homeDir }: AgentSetup): Record<string, unknown> {
  if (server.type === 'http') return { ...server, alwaysLoad: true };
  return { type: 'stdio', ...confinedArgv(server.argv), env: { HOME: homeDir, ...server.env }, alwaysLoad: true };
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}

export type ToolDecision =
  | { readonly behavior: 'allow'; readonly updatedInput: Readonly<Record<string, unknown>> }
  | { readonly behavior: 'deny'; readonly message: string };

interface CanUseToolOptions {
  readonly signal: AbortSignal;
  readonly toolUseID: string;
}

export type CanUseTool = (
  tool: string,
  input: Record<string, unknown>,
  options: CanUseToolOptions,
) => Promise<ToolDecision>;

/** Called before each tool. */
export interface HookMatcher {
  readonly hooks: readonly ((input: unknown) => Promise<object>)[];
  /** What happens to the tool if a hook throws. */
  readonly onFailure: 'block';
}

export interface PromptMessage {
  readonly type: 'user';
  readonly uuid: string;
  readonly message: { readonly role: 'user'; readonly content: string };
  readonly parent_tool_use_id: null;
}

/** The messages are parsed one by one: see sdk-messages.ts. */
export interface SdkQuery extends AsyncIterable<unknown> {
  setMcpServers(servers: Readonly<Record<string, unknown>>): Promise<unknown>;
  /** Stops the turn; what was said so far is kept. */
  interrupt(): Promise<unknown>;
  /** Ends the process. */
  close(): void;
}

export interface Sdk {
  query(call: { prompt: AsyncIterable<PromptMessage>; options: Readonly<Record<string, unknown>> }): SdkQuery;
}

const Module = z.object({ query: z.custom<Sdk['query']>((value) => typeof value === 'function') });

export async function loadSdk(programDir: string): Promise<Sdk> {
  const file = join(programDir, 'node_modules', ...claudeProgram.packageName.split('/'), 'sdk.mjs');
  try {
    return Module.parse(await import(pathToFileURL(file).href));
  } catch (cause) {
    const message = `Claude's program is not in ${programDir}.`;
    const advice = 'Install it where the server runs: `cella agents install claude`.';
    throw new CellaError('AGENT_NOT_INSTALLED', message, { cause, advice });
  }
}

const NATIVE_MODES = {
  ask: 'default',
  'auto-edit': 'acceptEdits',
  plan: 'plan',
  bypass: 'bypassPermissions',
} as const satisfies Record<PermissionMode, string>;

function nativeMode(mode: PermissionMode): string {
  return NATIVE_MODES[mode];
}

/** An unknown mode is `ask`. */
export function modeOf(word: string | undefined): PermissionMode {
  const modes = Object.keys(NATIVE_MODES) as (keyof typeof NATIVE_MODES)[];
  return modes.find((mode) => NATIVE_MODES[mode] === word) ?? 'ask';
}

/** Also in confine.py. */
const ARGV_WORD = 'cella-argv';

/**
 * The program's configuration for one turn. It lies outside the session's home, because kernel code can write there and
 * could add variables, hooks and servers. Only conversations stay in the home.
 */
interface TurnFolder extends AsyncDisposable {
  /** The program's configuration folder: empty except for a link to the conversations. */
  readonly configDir: string;
  /** For the skills and commands of the profile. */
  readonly profileDir: string;
  /** A script that each command runs first; it sets the session's home. */
  readonly prelude: string;
}

/**
 * Runs each command, hook and stdio server. It lies beside the runner, or beside this file in a checkout: in an environment
 * that folder is read-only. A command that could change it would run the next one unconfined.
 */
export const confineScript = fileURLToPath(new URL('confine.py', import.meta.url));

/** The program's HOME. Shells and git run files from a home, and this one is always empty. */
const NO_HOME = '/dev/null';

/** Encodes the arguments as one word, because the program joins them with spaces for a shell. */
function confinedArgv(argv: readonly string[]): { readonly command: string; readonly args: readonly string[] } {
  return { command: ARGV_WORD, args: [Buffer.from(argv.join('\0')).toString('hex')] };
}

/** In the temporary folder, which every sandbox has for itself. */
export async function makeTurnFolder(setup: Pick<AgentSetup, 'homeDir'>): Promise<TurnFolder> {
  await requireScript();
  const conversations = conversationsDir(setup);
  await makeFolder(setup.homeDir, conversations);
  const folder = await mkdtemp(join(tmpdir(), 'cella-claude-'));
  const [configDir, profileDir] = [join(folder, 'config'), join(folder, 'profile')];
  const prelude = join(folder, 'prelude.sh');
  await Promise.all([mkdir(configDir), writeFile(prelude, `export HOME=${quoted(setup.homeDir)}\n`)]);
  await symlink(conversations, join(configDir, CONVERSATIONS));
  // Also removes what a killed program left half written.
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  return { configDir, profileDir, prelude, [Symbol.asyncDispose]: remove };
}

/** Otherwise only the model would see that each command fails. */
async function requireScript(): Promise<void> {
  await access(confineScript, constants.X_OK).catch((cause) => {
    const message = `The script that confines an agent's commands cannot be run: ${confineScript}.`;
    throw new CellaError('AGENT_FAILED', message, {
      cause,
      advice: 'Install Cella again; in a checkout: npm run build.',
    });
  });
}

/** Quotes a text for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The program calls these `profile:name`. */
const PLUGIN_NAME = 'profile';

/** Undefined if there are none. */
export async function writeProfile(
  { profile }: Pick<AgentSetup, 'profile'>,
  folder: string,
): Promise<string | undefined> {
  const files = filesOf(profile);
  if (files.length === 0) return undefined;
  const manifest = { name: PLUGIN_NAME, description: 'Skills and commands of the profile', version: '1.0.0' };
  for (const [path, text] of [['.claude-plugin/plugin.json', JSON.stringify(manifest)] as const, ...files]) {
    const file = join(folder, path);
    await mkdir(join(file, '..'), { recursive: true });
    await writeFile(file, text, { flag: 'wx' });
  }
  return folder;
}

function filesOf({ skills = {}, commands = {} }: AgentProfile): (readonly [path: string, text: string])[] {
  return [
    ...Object.entries(skills).map(([name, text]) => [`skills/${ProfileName.parse(name)}/SKILL.md`, text] as const),
    ...Object.entries(commands).map(([name, text]) => [`commands/${ProfileName.parse(name)}.md`, text] as const),
  ];
}

/**
 * Maps `/name` of a profile's command to the program's name of it. The program's own commands run shell commands without
 * asking (`/security-review` runs `git status`), and change its settings. A blank makes them plain text.
 */
export function toNativePrompt(prompt: string, { commands = {} }: AgentProfile): string {
  const name = /^\/([A-Za-z0-9_-]+)(?=\s|$)/.exec(prompt)?.[1];
  if (name !== undefined && Object.hasOwn(commands, name)) return `/${PLUGIN_NAME}:${prompt.slice(1)}`;
  return /^ *\//.test(prompt) ? ` ${prompt}` : prompt;
}

/** The reverse, from a transcript. */
export function fromNativePrompt(text: string): string {
  const name = /^(?:<command-message>.*?)?<command-name>\/?([^<]*)<\/command-name>/s.exec(text)?.[1];
  if (name === undefined) return /^ +\//.test(text) ? text.slice(1) : text;
  const args = between(text, '<command-args>', '</command-args>');
  const own = name.startsWith(`${PLUGIN_NAME}:`) ? name.slice(PLUGIN_NAME.length + 1) : name;
  return args === '' ? `/${own}` : `/${own} ${args}`;
}

/** From the first `start` to the last `end`. Code can write the text, and a pattern could try each `start` with each `end`. */
function between(text: string, start: string, end: string): string {
  const from = text.indexOf(start) + start.length;
  const to = text.lastIndexOf(end);
  return from < start.length || to < from ? '' : text.slice(from, to);
}
