/** `cella artifacts`: data that code stores. */

import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Option } from 'commander';
import { systemCode } from '../../lib/values.ts';
import { type ArtifactFacts, type ArtifactInfo, isTextArtifact } from '../../protocol/namespace-models.ts';
import type { ArtifactsApi } from '../../session/api.ts';
import { UsageError } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, firstLine, formatAgo, formatSize, formatTime } from '../format.ts';
import { parseText } from '../options.ts';
import { addNamespaceFlags, type NamespaceFlags, namespaceRunner } from '../session-flags.ts';
import { unreadable } from '../terminal/line-input.ts';
import { writeTo } from '../terminal/terminal.ts';

const NAME = 'name of the artifact';

interface SaveFlags extends NamespaceFlags {
  readonly description?: string;
  readonly type?: 'text' | 'json' | 'bytes' | 'file';
  readonly mediaType?: string;
}

export function addArtifacts(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.artifacts);
  const make = (name: string, summary: string, examples: string) =>
    addNamespaceFlags(defineCommand(group, name, summary, examples));
  const run = namespaceRunner(context, done);

  make('list', 'list artifacts with type and size', help.list).action((flags: NamespaceFlags) =>
    run(flags, ({ artifacts }, output) => list(artifacts, output)),
  );
  make('show', 'show the metadata of an artifact', help.show)
    .argument('<name>', NAME, parseText)
    .action((name: string, flags: NamespaceFlags) =>
      run(flags, ({ artifacts }, output) => show(artifacts, name, output)),
    );
  make('load', 'write the content of an artifact to stdout, or to a file', help.load)
    .argument('<name>', NAME, parseText)
    .option('--out <file>', 'write to this file', parseText)
    .action((name: string, flags: NamespaceFlags & { out?: string }) => {
      if (flags.json && flags.out === undefined) {
        throw new UsageError('--json needs --out.', 'Add --out FILE, or use `cella artifacts show NAME --json`.');
      }
      return run(flags, ({ artifacts }, output) => load(artifacts, { name, out: flags.out }, output));
    });
  make('save', 'save a file, or stdin, as an artifact', help.save)
    .argument('<name>', NAME, parseText)
    .argument('<file>', 'file with the content, or - to read it from stdin', parseText)
    .option('--description <text>', 'what it is')
    .addOption(
      new Option('--type <type>', 'what code gets when it loads it (default: by its name)').choices([
        'text',
        'json',
        'bytes',
        'file',
      ]),
    )
    .option('--media-type <type>', 'such as text/csv (default: by its name)', parseText)
    .action(async (name: string, file: string, flags: SaveFlags) => {
      const { factsByName } = await import('../../storage/media-types.ts');
      const guess = factsByName(/\.\w+$/.test(name) ? name : file);
      await run(flags, ({ artifacts }, output) =>
        save(artifacts, { name, file, facts: factsOf(flags, guess) }, output),
      );
    });
  make('delete', 'delete an artifact', help.delete)
    .argument('<name>', NAME, parseText)
    .action((name: string, flags: NamespaceFlags) =>
      run(flags, ({ artifacts }, output) => remove(artifacts, name, output)),
    );
}

const mediaTypes = { text: 'text/plain', json: 'application/json', bytes: 'application/octet-stream' } as const;

function factsOf(flags: SaveFlags, guess: Pick<ArtifactFacts, 'type' | 'mediaType'>): ArtifactFacts {
  const { type = guess.type, description = '' } = flags;
  const usual = flags.type === undefined || flags.type === 'file' ? guess.mediaType : mediaTypes[flags.type];
  return { type, mediaType: flags.mediaType ?? usual, description, metadata: {} };
}

const columns = [
  { title: 'NAME' },
  { title: 'TYPE' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'UPDATED' },
  { title: 'DESCRIPTION' },
];

export async function list(artifacts: ArtifactsApi, report: CommandOutput): Promise<number> {
  const all = await artifacts.list();
  const facts = { artifacts: all };
  if (all.length === 0) {
    await report.empty(facts, 'There are no artifacts. Save one with `cella artifacts save NAME FILE`.');
    return Exit.ok;
  }
  await report.table(facts, columns, all.map(toRow));
  return Exit.ok;
}

/** The metadata, without the content. */
export async function show(artifacts: ArtifactsApi, name: string, report: CommandOutput): Promise<number> {
  const artifact = await artifacts.get(name);
  const { type, mediaType, size, sha256, createdAt, updatedAt, description, metadata } = artifact;
  const facts = [
    ['type', `${type} (${mediaType})`],
    ['size', formatSize(size)],
    ['sha256', sha256],
    ['created', formatTime(createdAt)],
    ['updated', formatTime(updatedAt)],
    ...(description === '' ? [] : [['about', escapeControls(description)]]),
    ...(Object.keys(metadata).length === 0 ? [] : [['metadata', escapeControls(JSON.stringify(metadata))]]),
  ];
  const lines = facts.map(([fact = '', text = '']) => `  ${fact.padEnd(10)}${text}`);
  await report.result({ artifact }, [escapeControls(artifact.name), ...lines].join('\n'));
  return Exit.ok;
}

export async function remove(artifacts: ArtifactsApi, name: string, report: CommandOutput): Promise<number> {
  await artifacts.delete(name);
  await report.success({ deleted: name }, `Deleted the artifact ${JSON.stringify(name)}.`);
  return Exit.ok;
}

function toRow({ name, type, size, updatedAt, description }: ArtifactInfo): string[] {
  return [name, type, formatSize(size), formatAgo(updatedAt), firstLine(description)];
}

/** Writes to a file, or to stdout if none is given. */
export async function load(
  artifacts: ArtifactsApi,
  { name, out }: { readonly name: string; readonly out: string | undefined },
  report: CommandOutput,
): Promise<number> {
  const { terminal } = report;
  if (out === undefined || out === '-') {
    const { info, chunks } = await artifacts.load(name);
    if (terminal.stdout.isTTY && !isTextArtifact(info)) {
      throw new UsageError(
        `The artifact ${JSON.stringify(name)} is ${info.mediaType}, which a terminal cannot show.`,
        'Write it to a file with --out FILE, or pipe it: cella artifacts load NAME | PROGRAM.',
      );
    }
    for await (const chunk of chunks) await writeTo(terminal.stdout, chunk);
    if (terminal.stdout.isTTY) await terminal.out('\n');
    return Exit.ok;
  }
  const { info, chunks } = await artifacts.load(name);
  await writeFile(out, chunks);
  await report.success({ artifact: info, out }, `Wrote ${escapeControls(out)}, ${formatSize(info.size)}.`);
  return Exit.ok;
}

interface SaveRequest {
  readonly name: string;
  /** `-` is stdin. */
  readonly file: string;
  readonly facts: Pick<ArtifactFacts, 'type' | 'mediaType'> & Partial<ArtifactFacts>;
}

async function save(artifacts: ArtifactsApi, request: SaveRequest, report: CommandOutput): Promise<number> {
  const { name, file, facts } = request;
  if (file !== '-') await checkFile(file);
  const content: AsyncIterable<Uint8Array> = file === '-' ? report.terminal.stdin : createReadStream(file);
  const artifact = await artifacts.save(name, bytesOf(content), facts);
  const text = `Saved the artifact ${JSON.stringify(artifact.name)} (${artifact.type}, ${formatSize(artifact.size)}).`;
  await report.success({ artifact }, text);
  return Exit.ok;
}

/** A stdin with an encoding yields strings. */
async function* bytesOf(content: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of content) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
}

async function checkFile(file: string): Promise<void> {
  const facts = await stat(file).catch((error) => {
    throw unreadable(file, error, 'Name a file, or - for stdin.');
  });
  if (facts.isDirectory()) throw new UsageError(`${file} is a folder.`, 'Name a file, or - for stdin.');
}

/** Atomic: readers see either the old content or all of the new. */
async function writeFile(path: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const part = join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}`);
  try {
    await using file = await open(part, 'wx');
    for await (const chunk of chunks) await file.write(chunk);
    await file.close();
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    const code = systemCode(error) ?? '';
    if (!['ENOENT', 'ENOTDIR', 'EISDIR', 'EACCES', 'EROFS', 'ENOSPC'].includes(code)) throw error;
    throw new UsageError(`${path} cannot be written (${code}).`, 'Choose another file with --out.');
  }
}

const help = {
  artifacts: `
Examples:
  $ cella artifacts save sales.csv ./sales.csv --description 'Sales of May'
  $ cella artifacts list
  $ cella artifacts load sales.csv --out copy.csv
  $ cella run -c 'artifacts.load("sales.csv")'

Artifacts are data that code has saved. They outlive kernels, and all agent keys of a storage share
them. See docs/namespaces.md.`,
  list: `
Examples:
  $ cella artifacts list
  $ cella artifacts list --json | jq -r '.artifacts[] | select(.size > 1e6) | .name'`,
  show: `
Examples:
  $ cella artifacts show sales.csv
  $ cella artifacts show sales.csv --json | jq .artifact.sha256`,
  load: `
Examples:
  $ cella artifacts load report.md
  $ cella artifacts load chart.png --out chart.png
  $ cella artifacts load sales.csv | head

Cella writes the file completely or not at all, and never writes binary content to a terminal. Memory
use does not depend on the size.`,
  save: `
Examples:
  $ cella artifacts save sales.csv ./sales.csv
  $ date | cella artifacts save today - --type text
  $ cella artifacts save settings settings.json --type json

Replaces an artifact of the same name, completely or not at all. --type says what code
gets from artifacts.load(): text is a str, json the value, bytes and file are bytes.`,
  delete: `
Examples:
  $ cella artifacts delete sales.csv`,
};
