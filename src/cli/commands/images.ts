/** `cella images`: the images that kernels in containers run in. */

import type { Command } from 'commander';
import { settings } from '../../settings/settings-table.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import type { ImageCommands, ImageRequest } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatSize } from '../format.ts';
import { addSetting, addSettings, collect, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { resolveDataDir } from '../target-options.ts';

interface ImageFlags {
  readonly engine?: string;
  readonly json?: boolean;
}

interface BuildFlags extends ImageFlags {
  readonly base?: string;
  readonly name?: string;
  readonly with?: readonly string[];
  /** False if `--no-packages` was given. */
  readonly packages: boolean;
  readonly python?: string;
  readonly data?: string;
}

export function addImages(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.images);
  const report = (flags: ImageFlags) => new CommandOutput(context.terminal, flags);
  const engineOf = (flags: ImageFlags) => flags.engine ?? context.defaults.engine;
  const summary = 'build an image from the Python of this machine, or from another image';
  const command = addFlags(defineCommand(group, 'build', summary, help.build))
    .option('--base <image>', 'image with Python 3.9 or later that is on this machine', parseText)
    .option('--name <name>', 'name of the new image (default: cella-python:local)', parseText)
    .option('--with <program>', 'add a program of this machine, by name or path; may be repeated', collect)
    .option('--no-packages', 'leave out the packages of this Python');
  addSetting(command, settings.python, { about: 'Python to put into the image' });
  addSettings(command, [settings.dataDir, settings.config]).action(async (flags: BuildFlags) => {
    const request = requestOf(flags, context);
    done(await runAbortable(context, (signal) => build(request, context, report(flags), signal)));
  });
  addFlags(defineCommand(group, 'list', 'list images that Cella has built here', help.list)).action(
    async (flags: ImageFlags) => {
      done(await list(engineOf(flags), context, report(flags)));
    },
  );
  addFlags(defineCommand(group, 'delete', 'delete an image that Cella has built', help.delete))
    .argument('<name>', 'name of the image', parseText)
    .action(async (name: string, flags: ImageFlags) => {
      done(await remove(name, engineOf(flags), context, report(flags)));
    });
}

function addFlags(command: Command): Command {
  const about = 'socket of Docker or Podman';
  return addSetting(command, settings.engine, { about }).option('--json', 'print one JSON object');
}

function requestOf(flags: BuildFlags, { defaults }: ProgramContext): ImageRequest {
  const { base, name, engine = defaults.engine, packages, with: programs = [] } = flags;
  const dataDir = resolveDataDir(flags, defaults);
  const place = { dataDir, name, engine };
  if (base === undefined) return { ...place, python: flags.python ?? defaults.python, programs, packages };
  const unused =
    flags.python !== undefined ? '--python' : programs.length > 0 ? '--with' : packages ? '' : '--no-packages';
  if (unused === '') return { ...place, base };
  throw new UsageError(`${unused} cannot be used with --base.`, 'Leave one of them out.');
}

const columns = [
  { title: 'NAME' },
  { title: 'PYTHON' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'CREATED' },
  { title: 'ID' },
];

async function build(
  request: ImageRequest,
  images: ImageCommands,
  report: CommandOutput,
  signal: AbortSignal,
): Promise<number> {
  const onProgress = (text: string) => {
    // A failed write fails again with the result, and is reported there.
    if (!report.json) void report.terminal.status(text).catch(() => {});
  };
  const image = await images.buildImage(request, { signal, onProgress });
  const { name, python, bytes, missing } = image;
  const flags = request.name === undefined ? '' : ` --image ${name}`;
  const next = `Run code in it with \`cella run --executor container${flags}\`.`;
  await report.success({ image }, `Built ${name}: Python ${python}, ${formatSize(bytes)}.\n${next}`);
  if (missing.length === 0) return Exit.ok;
  await report.warn([
    `cella: libraries that programs in the image need are missing on this machine: ${missing.map(escapeControls).join(', ')}.`,
  ]);
  return Exit.ok;
}

async function list(engine: string | undefined, images: ImageCommands, report: CommandOutput): Promise<number> {
  const found = await images.listImages(engine);
  if (found.length === 0) {
    await report.empty({ images: [] }, 'There are no images. Build one with `cella images build`.');
    return Exit.ok;
  }
  const rows = found.map(({ name, python = '', bytes, createdAt, id }) => {
    const made = new Date(createdAt).toISOString().slice(0, 16).replace('T', ' ');
    return [name, python, formatSize(bytes), made, id.replace(/^sha256:/, '').slice(0, 12)];
  });
  await report.table({ images: found }, columns, rows);
  return Exit.ok;
}

async function remove(
  name: string,
  engine: string | undefined,
  images: ImageCommands,
  report: CommandOutput,
): Promise<number> {
  const image = await images.deleteImage(name, engine);
  await report.success({ deleted: image }, `Deleted ${escapeControls(image.name)}.`);
  return Exit.ok;
}

const help = {
  images: `
Examples:
  $ cella images build                      from the Python of this machine, without a registry
  $ cella images build --base python:3.12   from an image that is already here
  $ cella images list
  $ cella images delete cella-python:local

Kernels in containers (--executor container) run in such an image. See docs/containers.md.`,
  build: `
Examples:
  $ cella images build
  $ cella images build --with make --with curl      add two programs of this machine
  $ cella images build --python /opt/py/bin/python3 --name team-python:2
  $ cella images build --no-packages                only Python and its standard library
  $ cella images build --base python:3.12-slim      after \`docker pull python:3.12-slim\`

The image gets this Python with its standard library and packages, a shell, common programs and the
libraries that they need. Home folders, keys and files that not everybody may read stay out.
\`--executor container\` uses cella-python:local if you give no --image.`,
  list: `
Examples:
  $ cella images list
  $ cella images list --json | jq -r '.images[].name'`,
  delete: `
Examples:
  $ cella images delete cella-python:local

Deletes only images that Cella has built. An image that a container uses is kept and reported.`,
};
