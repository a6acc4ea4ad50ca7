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
import { tryParseJson } from '../../lib/json-scanner.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkTranscriptLength, MOST_TRANSCRIPT } from '../../protocol/turn.ts';
import type { AgentSetup } from '../agent-adapter.ts';

/** Strict, because it becomes a file name. */
const Conversation = z.uuid();
const AgentId = z.string().regex(/^[A-Za-z0-9_-]{1,100}$/);

/** At most three bytes per UTF-16 code unit. */
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

/** False if the existing one is as new, or newer. */
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
    // The program continues this file and would follow a link.
    await checkFolder(where.homeDir, join(projects, project));
    if (!(await lstat(path)).isFile()) throw outsideHome(path);
    return path;
  }
  return undefined;
}

/** The program derives the folder name from its working directory. */
async function fileFor(where: ConversationPlace, conversation: string): Promise<string> {
  const cwd = await realpath(where.cwd).catch(() => where.cwd); // it may not exist yet
  const project = cwd.replace(/[^a-zA-Z0-9]/g, '-');
  return join(conversationsDir(where), project, `${checkedId(conversation)}.jsonl`);
}

function subagentsOf(file: string): string {
  return join(file.slice(0, -'.jsonl'.length), 'subagents');
}

function checkedId(conversation: string): string {
  if (Conversation.safeParse(conversation).success) return conversation;
  const shown = JSON.stringify(conversation.slice(0, 80));
  throw new CellaError('CONVERSATION_NOT_FOUND', `${shown} is not a conversation of Claude.`);
}

/** Without an unfinished last line. */
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
  return StampedLine.safeParse(tryParseJson(line)).data;
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

/** Throws `TOO_LARGE` if all files together have more than `most` bytes. */
async function readTexts(homeDir: string, paths: readonly string[], most: number): Promise<string[]> {
  const texts: string[] = [];
  let size = 0;
  for (const path of paths) {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(
      (error) => rethrow(error, path),
    );
    const facts = await file.stat();
    if (!facts.isFile()) throw outsideHome(path);
    // Parent folders may be links, too. The path of the open descriptor cannot change any more.
    const real = await readlink(`/proc/self/fd/${file.fd}`).catch(() => realpath(path));
    await checkInside(homeDir, real, path);
    size += facts.size;
    checkTranscriptLength(basename(path), size, most);
    // A file without a size, such as a device, may never end.
    texts.push(facts.size === 0 ? '' : await file.readFile('utf8'));
  }
  return texts;
}

/** Atomic: a reader sees the old or the new text. */
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

/** Creates the folder if it is missing, never through a link. */
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
  new CellaError('CONVERSATION_NOT_FOUND', `${path} is not a file in the session's home.`);

/** With O_NOFOLLOW, a link gives ELOOP, or ENOTDIR for a folder. */
function rethrow(error: NodeJS.ErrnoException, path: string): never {
  throw error.code === 'ELOOP' || error.code === 'ENOTDIR' ? outsideHome(path) : error;
}

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

interface NoFollowFolder extends AsyncDisposable {
  /** The path of this name in the folder. */
  readonly path: (name: string) => string;
}

/** Opens the folder, and creates missing ones on the way. A link fails with ELOOP or ENOTDIR. */
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
