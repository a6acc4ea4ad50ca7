/**
 * A config file: YAML with the settings of the table by their names. It says which programs run and where data lies, so
 * that nobody but its owner may be able to change it, and it stands for variables, which win over it.
 */

import { constants, type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Document, LineCounter, parseDocument } from 'yaml';
import { CellaError } from '../protocol/errors.ts';
import { type ConfigValues, configProblems, configSchema, passwordIn, toVariables } from './config-values.ts';

const MOST_BYTES = 1024 * 1024;
/** Of all that aliases stand for: a few lines of them can mean gigabytes. */
const MOST_ALIASES = 100;

export interface ConfigPlace {
  readonly path: string;
  /** Whether somebody has named it; the one in the data folder need not be there, and cannot say where that is. */
  readonly named: boolean;
}

/** The variables that the file stands for. */
export async function readConfig({ path, named }: ConfigPlace): Promise<Readonly<Record<string, string>>> {
  const file = await openConfig(path);
  if (!file) {
    if (named) throw refused(path, 'it is not there');
    return {};
  }
  await using held = file;
  const { mode, text } = await checkedText(held, path);
  const values = valuesIn(text, path);
  if (!named && values.data !== undefined) {
    throw refused(path, 'data: the file lies in the data folder; another one is named with --data or CELLA_DATA_DIR');
  }
  const secret = passwordIn(values);
  if (secret !== undefined && (mode & 0o044) !== 0) {
    throw refused(path, `${secret} holds a password, and others can read it; run: chmod 600 ${path}`);
  }
  return toVariables(values, dirname(path), (problem) => refused(path, problem));
}

async function openConfig(path: string): Promise<FileHandle | undefined> {
  try {
    // Whoever waits at a pipe waits for ever.
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw refused(path, error instanceof Error ? error.message : String(error), error);
  }
}

/** What is read is what was checked: both go by the open file. */
async function checkedText(file: FileHandle, path: string): Promise<{ mode: number; text: string }> {
  const { mode, uid, size } = await file.stat();
  if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw refused(path, 'it is no file');
  if (size > MOST_BYTES) throw refused(path, 'it is larger than 1 MB');
  const own = process.geteuid?.() ?? uid;
  if (uid !== own && uid !== 0) throw refused(path, `it belongs to another user (${uid})`);
  if ((mode & 0o022) !== 0) throw refused(path, `others can write to it; run: chmod go-w ${path}`);
  return { mode, text: await file.readFile('utf8') };
}

function valuesIn(text: string, path: string): ConfigValues {
  const lines = new LineCounter();
  const document = parsedYaml(text, path, lines);
  const parsed = configSchema.safeParse(toValue(document, path) ?? {});
  if (parsed.success) return parsed.data;
  throw refused(path, configProblems(parsed.error).join('; '));
}

function parsedYaml(text: string, path: string, lines: LineCounter): Document {
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
  const [error] = document.errors;
  if (!error) return document;
  const [first = ''] = error.message.split('\n');
  throw refused(path, `line ${lines.linePos(error.pos[0]).line}: ${first}`);
}

function toValue(document: Document, path: string): unknown {
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES });
  } catch (error) {
    // Too many aliases, or more nesting than the stack holds.
    throw refused(path, error instanceof Error ? error.message : String(error), error);
  }
}

function refused(path: string, problem: string, cause?: unknown): CellaError {
  const message = `The config file ${path} cannot be used: ${problem}.`;
  return new CellaError('INVALID_OPTIONS', message, cause === undefined ? {} : { cause });
}
