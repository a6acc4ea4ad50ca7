/** Claude's transcripts, where its program looks for them: one file a conversation, and one for each of its subagents. */

import { lstat, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { MOST_TRANSCRIPT } from '../../protocol/turn.ts';
import type { AgentSetup } from '../contract.ts';
import { checkFolder, conversationsDir, elsewhere, readTexts, replaceText } from './home-files.ts';

/** It becomes a file name: nothing else is taken. */
const Conversation = z.uuid();
const AgentId = z.string().regex(/^[A-Za-z0-9_-]{1,100}$/);

/** A character has three bytes at most, but for pairs, which have four. */
const MOST_BYTES = MOST_TRANSCRIPT * 3;

type Where = Pick<AgentSetup, 'cwd' | 'homeDir'>;

export async function readConversation(where: Where, conversation: string): Promise<string | undefined> {
  const file = await findFile(where, conversation);
  if (file === undefined) return undefined;
  const folder = subagentsOf(file);
  const names = (await readdir(folder).catch(emptyWhereMissing)).filter((name) => name.endsWith('.jsonl')).sort();
  const texts = await readTexts(where.homeDir, [file, ...names.map((name) => join(folder, name))], MOST_BYTES);
  return texts.map(whole).join('');
}

/** False where what is there is as new, or newer. */
export async function writeConversation(where: Where, conversation: string, text: string): Promise<boolean> {
  const there = await readConversation(where, conversation);
  if (there !== undefined && newestIn(there) >= newestIn(text)) return false;
  const file = (await findFile(where, conversation)) ?? (await fileFor(where, conversation));
  for (const [agent, lines] of byAgent(text)) {
    const path = agent === '' ? file : join(subagentsOf(file), `agent-${agent}.jsonl`);
    await replaceText(where.homeDir, path, lines);
  }
  return true;
}

export async function findFile(where: Where, conversation: string): Promise<string | undefined> {
  const projects = conversationsDir(where);
  const name = `${checked(conversation)}.jsonl`;
  for (const project of await readdir(projects).catch(emptyWhereMissing)) {
    const files = await readdir(join(projects, project)).catch(emptyWhereMissing);
    if (!files.includes(name)) continue;
    const path = join(projects, project, name);
    // The program goes on with it, and would write to wherever it leads.
    await checkFolder(where.homeDir, join(projects, project));
    if (!(await lstat(path)).isFile()) throw elsewhere(path);
    return path;
  }
  return undefined;
}

/** The program names the folder after the one that it works in. */
async function fileFor(where: Where, conversation: string): Promise<string> {
  const cwd = await realpath(where.cwd).catch(() => where.cwd); // it may be made later
  const project = cwd.replace(/[^a-zA-Z0-9]/g, '-');
  return join(conversationsDir(where), project, `${checked(conversation)}.jsonl`);
}

function subagentsOf(file: string): string {
  return join(file.slice(0, -'.jsonl'.length), 'subagents');
}

function checked(conversation: string): string {
  if (Conversation.safeParse(conversation).success) return conversation;
  const shown = JSON.stringify(conversation.slice(0, 80));
  throw new CellaError('CONVERSATION_NOT_FOUND', `${shown} is no conversation of Claude's.`);
}

/** The program may be in the middle of a line. */
function whole(text: string): string {
  return text === '' || text.endsWith('\n') ? text : text.slice(0, text.lastIndexOf('\n') + 1);
}

const Line = z.looseObject({ timestamp: z.string().optional(), agentId: z.string().optional() });

function newestIn(text: string): string {
  const stamps = text.split('\n').map((line) => parse(line)?.timestamp ?? '');
  return stamps.reduce((newest, stamp) => (stamp > newest ? stamp : newest), '');
}

function byAgent(text: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const agent = AgentId.safeParse(parse(line)?.agentId).data ?? '';
    files.set(agent, `${files.get(agent) ?? ''}${line}\n`);
  }
  return files;
}

function parse(line: string): z.infer<typeof Line> | undefined {
  try {
    return Line.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined; // a line that was cut off
  }
}

function emptyWhereMissing(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return [];
  throw error;
}
