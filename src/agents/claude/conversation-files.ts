/**
 * Claude's transcripts in the session's home: one file per conversation and one per subagent. Kernel code can write to the
 * home, so links, devices and endless files are refused.
 */

import {
  constants,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
} from 'node:fs/promises';
import { basename, dirname, join, relative, sep } from 'node:path';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { checkTranscriptLength, MOST_TRANSCRIPT } from '../../protocol/turn.ts';
import type { AgentSetup } from '../agent-adapter.ts';

/** It becomes a file name: nothing else is taken. */
const Conversation = z.uuid();
const AgentId = z.string().regex(/^[A-Za-z0-9_-]{1,100}$/);

/** A character has three bytes at most, but for pairs, which have four. */
const MOST_BYTES = MOST_TRANSCRIPT * 3;

type ConversationPlace = Pick<AgentSetup, 'cwd' | 'homeDir'>;

export async function readConversation(where: ConversationPlace, conversation: string): Promise<string | undefined> {
  const file = await findFile(where, conversation);
  if (file === undefined) return undefined;
  const folder = subagentsOf(file);
  const names = (await readdir(folder).catch(emptyWhereMissing)).filter((name) => name.endsWith('.jsonl')).sort();
  const texts = await readTexts(where.homeDir, [file, ...names.map((name) => join(folder, name))], MOST_BYTES);
  return texts.map(wholeLines).join('');
}

/** False where what is there is as new, or newer. */
export async function writeConversation(
  where: ConversationPlace,
  conversation: string,
  text: string,
): Promise<boolean> {
  const there = await readConversation(where, conversation);
  if (there !== undefined && newestIn(there) >= newestIn(text)) return false;
  const file = (await findFile(where, conversation)) ?? (await fileFor(where, conversation));
  for (const [agent, lines] of byAgent(text)) {
    const path = agent === '' ? file : join(subagentsOf(file), `agent-${agent}.jsonl`);
    await replaceText(where.homeDir, path, lines);
  }
  return true;
}

export async function findFile(where: ConversationPlace, conversation: string): Promise<string | undefined> {
  const projects = conversationsDir(where);
  const name = `${checkedId(conversation)}.jsonl`;
  for (const project of await readdir(projects).catch(emptyWhereMissing)) {
    const files = await readdir(join(projects, project)).catch(emptyWhereMissing);
    if (!files.includes(name)) continue;
    const path = join(projects, project, name);
    // The program goes on with it, and would write to wherever it leads.
    await checkFolder(where.homeDir, join(projects, project));
    if (!(await lstat(path)).isFile()) throw outsideHome(path);
    return path;
  }
  return undefined;
}

/** The program names the folder after the one that it works in. */
async function fileFor(where: ConversationPlace, conversation: string): Promise<string> {
  const cwd = await realpath(where.cwd).catch(() => where.cwd); // it may be made later
  const project = cwd.replace(/[^a-zA-Z0-9]/g, '-');
  return join(conversationsDir(where), project, `${checkedId(conversation)}.jsonl`);
}

function subagentsOf(file: string): string {
  return join(file.slice(0, -'.jsonl'.length), 'subagents');
}

function checkedId(conversation: string): string {
  if (Conversation.safeParse(conversation).success) return conversation;
  const shown = JSON.stringify(conversation.slice(0, 80));
  throw new CellaError('CONVERSATION_NOT_FOUND', `${shown} is no conversation of Claude's.`);
}

/** The program may be in the middle of a line. */
function wholeLines(text: string): string {
  return text === '' || text.endsWith('\n') ? text : text.slice(0, text.lastIndexOf('\n') + 1);
}

const StampedLine = z.looseObject({ timestamp: z.string().optional(), agentId: z.string().optional() });

function newestIn(text: string): string {
  const stamps = text.split('\n').map((line) => parseLine(line)?.timestamp ?? '');
  return stamps.reduce((newest, stamp) => (stamp > newest ? stamp : newest), '');
}

function byAgent(text: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const agent = AgentId.safeParse(parseLine(line)?.agentId).data ?? '';
    files.set(agent, `${files.get(agent) ?? ''}${line}\n`);
  }
  return files;
}

function parseLine(line: string): z.infer<typeof StampedLine> | undefined {
  try {
    return StampedLine.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined; // a line that was cut off
  }
}

function emptyWhereMissing(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return [];
  throw error;
}

/** The folder of conversations in the program's configuration folder. */
export const CONVERSATIONS = 'projects';
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** Where conversations are kept between turns. */
export function conversationsDir({ homeDir }: Pick<AgentSetup, 'homeDir'>): string {
  return join(homeDir, '.claude', CONVERSATIONS);
}

/** TOO_LARGE past `most` bytes of all of them together. */
async function readTexts(homeDir: string, paths: readonly string[], most: number): Promise<string[]> {
  const texts: string[] = [];
  let size = 0;
  for (const path of paths) {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(
      (error) => rethrow(error, path),
    );
    const facts = await file.stat();
    if (!facts.isFile()) throw outsideHome(path);
    // Folders above it may be links too. Where the system tells where the open file lies, that cannot change any more.
    const real = await readlink(`/proc/self/fd/${file.fd}`).catch(() => realpath(path));
    await checkInside(homeDir, real, path);
    size += facts.size;
    checkTranscriptLength(basename(path), size, most);
    // One that was empty a moment ago may grow for as long as it is read.
    texts.push(facts.size === 0 ? '' : await file.readFile('utf8'));
  }
  return texts;
}

/** A reader sees what was there or the new text, never half of it. */
export async function replaceText(homeDir: string, path: string, text: string): Promise<void> {
  await using folder = await openFolder(homeDir, dirname(path));
  const [part, whole] = [folder.path(`${basename(path)}.part`), folder.path(basename(path))];
  await rm(part, { force: true });
  try {
    {
      await using file = await open(part, CREATE, 0o666);
      await file.writeFile(text);
    }
    await rename(part, whole);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** Makes it where it is missing, and never through a link. */
export async function makeFolder(homeDir: string, folder: string): Promise<void> {
  await using _held = await openFolder(homeDir, folder);
}

async function openFolder(homeDir: string, folder: string): Promise<NoFollowFolder> {
  return await openNoFollowFolder(homeDir, namesBelow(homeDir, folder)).catch((error) => rethrow(error, folder));
}

function namesBelow(homeDir: string, folder: string): string[] {
  const names = relative(homeDir, folder).split(sep);
  if (names.some((name) => name === '' || name === '..')) throw outsideHome(folder);
  return names;
}

async function checkFolder(homeDir: string, folder: string): Promise<void> {
  await checkInside(homeDir, await realpath(folder), folder);
}

async function checkInside(homeDir: string, real: string, path: string): Promise<void> {
  if (!real.startsWith(`${await realpath(homeDir)}${sep}`)) throw outsideHome(path);
}

const outsideHome = (path: string): CellaError =>
  new CellaError('CONVERSATION_NOT_FOUND', `${path} is no file of the session's home.`);

/** Of a folder, the system says of a link that it is none. */
function rethrow(error: NodeJS.ErrnoException, path: string): never {
  throw error.code === 'ELOOP' || error.code === 'ENOTDIR' ? outsideHome(path) : error;
}

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

interface NoFollowFolder extends AsyncDisposable {
  /** The path of what has that name in it. */
  readonly path: (name: string) => string;
}

/** The folder that the names lead to, each made where it is missing. A link on the way is an ELOOP or ENOTDIR. */
export async function openNoFollowFolder(root: string, names: readonly string[]): Promise<NoFollowFolder> {
  let at = await open(root, constants.O_RDONLY | constants.O_DIRECTORY);
  for (const name of names) {
    const above = at;
    try {
      await mkdir(pathIn(above, name)).catch(ignoreExists);
      at = await open(pathIn(above, name), FOLDER);
    } finally {
      await above.close();
    }
  }
  return { path: (name) => pathIn(at, name), [Symbol.asyncDispose]: () => at.close() };
}

const pathIn = ({ fd }: FileHandle, name: string): string => `/proc/self/fd/${fd}/${name}`;

function ignoreExists(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
