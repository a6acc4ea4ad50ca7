/** `cella image`: the images that kernels in containers run in. */

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

interface Flags {
  readonly engine?: string;
  readonly json?: boolean;
}

interface BuildFlags extends Flags {
  readonly base?: string;
  readonly name?: string;
  readonly with?: readonly string[];
  /** False if `--no-packages` was given. */
  readonly packages: boolean;
  readonly python?: string;
  readonly data?: string;
}

export function addImage(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.image);
  const report = (flags: Flags) => new CommandOutput(context.terminal, { json: flags.json === true });
  const engineOf = (flags: Flags) => flags.engine ?? context.defaults.engine;
  const summary = "make an image, from this machine's own Python or from another";
  const command = addFlags(defineCommand(group, 'build', summary, help.build))
    .option('--base <image>', 'an image with Python 3.9 or later that is on this machine', parseText)
    .option('--name <name>', 'what to call it (default: cella-python:local)', parseText)
    .option('--with <program>', 'one more program of this machine, by name or path; may be repeated', collect)
    .option('--no-packages', 'leave the packages of this Python out');
  addSetting(command, settings.python, { about: 'the Python to take' });
  addSettings(command, [settings.dataDir, settings.config]).action(async (flags: BuildFlags) => {
    const request = requestOf(flags, context);
    done(await runAbortable(context, (signal) => build(request, context, report(flags), signal)));
  });
  addFlags(defineCommand(group, 'list', 'the images that Cella has made here', help.list)).action(
    async (flags: Flags) => {
      done(await list(engineOf(flags), context, report(flags)));
    },
  );
  addFlags(defineCommand(group, 'remove', 'remove an image that Cella has made', help.remove))
    .argument('<name>', 'its name', parseText)
    .action(async (name: string, flags: Flags) => {
      done(await remove(name, engineOf(flags), context, report(flags)));
    });
}

function addFlags(command: Command): Command {
  const about = 'the socket of Docker or Podman';
  return addSetting(command, settings.engine, { about }).option('--json', 'print one JSON object');
}

function requestOf(flags: BuildFlags, { defaults }: ProgramContext): ImageRequest {
  const { base, name, engine = defaults.engine, packages, with: programs = [] } = flags;
  const dataDir = resolveDataDir(flags, defaults);
  const place = { dataDir, ...(name === undefined ? {} : { name }), ...(engine === undefined ? {} : { engine }) };
  if (base === undefined) return { ...place, python: flags.python ?? defaults.python, programs, packages };
  const unused =
    flags.python !== undefined ? '--python' : programs.length > 0 ? '--with' : packages ? '' : '--no-packages';
  if (unused === '') return { ...place, base };
  throw new UsageError(`${unused} means nothing to an image with a base.`, 'Leave one of them out.');
}

const columns = [
  { title: 'NAME' },
  { title: 'PYTHON' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'MADE' },
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
  const next = `\`cella run --executor container${flags}\` runs code in it.`;
  await report.success({ image }, `Made ${name}: Python ${python}, ${formatSize(bytes)}.\n${next}`);
  if (missing.length === 0) return Exit.ok;
  await report.warn([
    `cella: this machine lacks libraries that parts of it need: ${missing.map(escapeControls).join(', ')}.`,
  ]);
  return Exit.ok;
}

async function list(engine: string | undefined, images: ImageCommands, report: CommandOutput): Promise<number> {
  const found = await images.listImages(engine);
  if (found.length === 0) {
    await report.empty({ images: [] }, 'Cella has made no images here. `cella image build` makes one.');
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
  const image = await images.removeImage(name, engine);
  await report.success({ removed: image }, `Removed ${escapeControls(image.name)}.`);
  return Exit.ok;
}

const help = {
  image: `
Examples:
  $ cella image build                      from the Python of this machine; no registry is asked
  $ cella image build --base python:3.12   from an image that is here already
  $ cella image list
  $ cella image remove cella-python:local

Kernels in containers (--executor container) run in such an image. See docs/containers.md.`,
  build: `
Examples:
  $ cella image build
  $ cella image build --with make --with curl      two more programs of this machine
  $ cella image build --python /opt/py/bin/python3 --name team-python:2
  $ cella image build --no-packages                Python and its standard library alone
  $ cella image build --base python:3.12-slim      pulled before with \`docker pull\`

The image gets this Python, its standard library and packages, a shell, the common programs and every
library that they need. Files that not everybody may read, homes and keys stay out. The name
cella-python:local is the one that \`--executor container\` takes where no --image is given.`,
  list: `
Examples:
  $ cella image list
  $ cella image list --json | jq -r '.images[].name'`,
  remove: `
Examples:
  $ cella image remove cella-python:local

Only images that Cella has made are removed. One that a container uses stays, and is told.`,
};
