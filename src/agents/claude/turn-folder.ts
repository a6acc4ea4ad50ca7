/**
 * The program's configuration for one turn, in a temporary folder. It lies outside the session's home, because kernel code
 * can write there and could add variables, hooks and servers. Only conversations stay in the home.
 */

import { access, constants, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AgentProfile, ProfileName } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AgentSetup } from '../agent-adapter.ts';
import { CONVERSATIONS, conversationsDir, makeFolder } from './conversation-files.ts';

/** Also in confine.py. */
const ARGV_WORD = 'cella-argv';

export interface TurnFolder extends AsyncDisposable {
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
export const NO_HOME = '/dev/null';

/** Encodes the arguments as one word, because the program joins them with spaces for a shell. */
export function confinedArgv(argv: readonly string[]): { readonly command: string; readonly args: readonly string[] } {
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

/** Maps `/name` of a profile's command to the program's name of it. */
export function toNativePrompt(prompt: string, { commands = {} }: AgentProfile): string {
  const name = /^\/([A-Za-z0-9_-]+)(?=\s|$)/.exec(prompt)?.[1];
  return name !== undefined && Object.hasOwn(commands, name) ? `/${PLUGIN_NAME}:${prompt.slice(1)}` : prompt;
}

/** The reverse, from a transcript. */
export function fromNativePrompt(text: string): string {
  const name = /^(?:<command-message>.*?)?<command-name>\/?([^<]*)<\/command-name>/s.exec(text)?.[1];
  if (name === undefined) return text;
  const args = /<command-args>(.*)<\/command-args>/s.exec(text)?.[1] ?? '';
  const own = name.startsWith(`${PLUGIN_NAME}:`) ? name.slice(PLUGIN_NAME.length + 1) : name;
  return args === '' ? `/${own}` : `/${own} ${args}`;
}
