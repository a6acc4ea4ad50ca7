/** The skills and commands of a profile as files that Claude's program reads: written anew for each turn. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type AgentProfile, ProfileName } from '../../protocol/agent-profile.ts';
import type { AgentSetup } from '../contract.ts';

/** The program calls what comes from here `profile:name`. */
const NAME = 'profile';

/** Undefined where there are none. */
export async function writeProfile(
  { profile }: Pick<AgentSetup, 'profile'>,
  folder: string,
): Promise<string | undefined> {
  const files = filesOf(profile);
  if (files.length === 0) return undefined;
  const manifest = { name: NAME, description: 'Skills and commands of the profile', version: '1.0.0' };
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

/** `/name` of a profile's command in the program's words. */
export function toNativePrompt(prompt: string, { commands = {} }: AgentProfile): string {
  const name = /^\/([A-Za-z0-9_-]+)(?=\s|$)/.exec(prompt)?.[1];
  return name !== undefined && Object.hasOwn(commands, name) ? `/${NAME}:${prompt.slice(1)}` : prompt;
}

/** And back, as the transcript tells a command. */
export function fromNativePrompt(text: string): string {
  const name = /^(?:<command-message>.*?)?<command-name>\/?([^<]*)<\/command-name>/s.exec(text)?.[1];
  if (name === undefined) return text;
  const args = /<command-args>(.*)<\/command-args>/s.exec(text)?.[1] ?? '';
  const own = name.startsWith(`${NAME}:`) ? name.slice(NAME.length + 1) : name;
  return args === '' ? `/${own}` : `/${own} ${args}`;
}
