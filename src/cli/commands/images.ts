/** `cella images`: the images for kernels in containers. */

import type { Command } from 'commander';
import type { Engine } from '../../environments/container/engine.ts';
import type { BuiltImage } from '../../environments/container/image-store.ts';
import { resolveDataDir } from '../../settings/process-config.ts';
import { settings } from '../../settings/settings-table.ts';
import { UsageError } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatSize } from '../format.ts';
import { addSetting, addSettings, collect, parseText } from '../options.ts';
import type { Defaults } from '../session-flags.ts';

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

export function addImages(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.images);
  const { defaults, terminal } = context;
  const engineOf = (flags: ImageFlags) => connect(flags.engine ?? defaults.engine);
  const summary = 'build an image from the Python of this machine, or from another image';
  const command = addFlags(defineCommand(group, 'build', summary, help.build))
    .option('--base <image>', 'image with Python 3.9 or later that is on this machine', parseText)
    .option('--name <name>', 'name of the new image (default: cella-python:local)', parseText)
    .option('--with <program>', 'add a program of this machine, by name or path; may be repeated', collect)
    .option('--no-packages', 'leave out the packages of this Python');
  addSetting(command, settings.python, { about: 'Python to put into the image' });
  addSettings(command, [settings.dataDir, settings.config]).action(async (flags: BuildFlags) => {
    checkBase(flags);
    const output = new CommandOutput(terminal, flags);
    done(
      await runAbortable(context, async (signal) => {
        const work = { name: flags.name, version: context.version, signal, onProgress: output.progress };
        return await showBuilt(await build(await engineOf(flags), flags, defaults, work), flags, output);
      }),
    );
  });
  addFlags(defineCommand(group, 'list', 'list images that Cella has built here', help.list)).action(
    async (flags: ImageFlags) => done(await list(await engineOf(flags), new CommandOutput(terminal, flags))),
  );
  addFlags(defineCommand(group, 'delete', 'delete an image that Cella has built', help.delete))
    .argument('<name>', 'name of the image', parseText)
    .action(async (name: string, flags: ImageFlags) =>
      done(await remove(name, await engineOf(flags), new CommandOutput(terminal, flags))),
    );
}

function addFlags(command: Command): Command {
  const about = 'socket of Docker or Podman';
  return addSetting(command, settings.engine, { about }).option('--json', 'print one JSON object');
}

async function connect(address: string | undefined): Promise<Engine> {
  const [{ connectEngine }, { readProcessConfig }] = await Promise.all([
    import('../../environments/container/engine.ts'),
    import('../../settings/process-config.ts'),
  ]);
  return await connectEngine(address, readProcessConfig().runtimeDir);
}

function checkBase({ base, python, with: programs = [], packages }: BuildFlags): void {
  if (base === undefined) return;
  const unused = python !== undefined ? '--python' : programs.length > 0 ? '--with' : packages ? '' : '--no-packages';
  if (unused !== '') throw new UsageError(`${unused} cannot be used with --base.`, 'Leave one of them out.');
}

interface BuildWork {
  readonly name?: string;
  readonly version: string;
  readonly signal: AbortSignal;
  readonly onProgress: (text: string) => void;
}

async function build(engine: Engine, flags: BuildFlags, defaults: Defaults, work: BuildWork): Promise<BuiltImage> {
  const { buildFromBase, buildImage } = await import('../../environments/container/image-store.ts');
  const { base, packages, with: programs = [] } = flags;
  if (base !== undefined) {
    const [{ dataFolder }, { newProcessIdentity }] = await Promise.all([
      import('../../session/data-folders.ts'),
      import('../../lib/process-identity.ts'),
    ]);
    const dataDir = dataFolder(resolveDataDir(flags, defaults));
    return await buildFromBase(engine, base, { ...work, dataDir, owner: newProcessIdentity() });
  }
  const { locatePython } = await import('../../session/executor-config.ts');
  const python = await locatePython(flags.python ?? defaults.python);
  return await buildImage(engine, { ...work, python, programs, packages });
}

async function showBuilt(image: BuiltImage, flags: BuildFlags, report: CommandOutput): Promise<number> {
  const { name, python, bytes, missing } = image;
  const named = flags.name === undefined ? '' : ` --image ${name}`;
  const next = `Run code in it with \`cella run --executor container${named}\`.`;
  await report.success({ image }, `Built ${name}: Python ${python}, ${formatSize(bytes)}.\n${next}`);
  if (missing.length === 0) return Exit.ok;
  await report.warn([
    `cella: libraries that programs in the image need are missing on this machine: ${missing.map(escapeControls).join(', ')}.`,
  ]);
  return Exit.ok;
}

const columns = [
  { title: 'NAME' },
  { title: 'PYTHON' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'CREATED' },
  { title: 'ID' },
];

async function list(engine: Engine, report: CommandOutput): Promise<number> {
  const { listImages } = await import('../../environments/container/image-store.ts');
  const found = await listImages(engine);
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

async function remove(name: string, engine: Engine, report: CommandOutput): Promise<number> {
  const { removeImage } = await import('../../environments/container/image-store.ts');
  const image = await removeImage(engine, name);
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

Kernels in containers (--executor container) run in such an image. See docs/executors.md.`,
  build: `
Examples:
  $ cella images build
  $ cella images build --with make --with curl      add two programs of this machine
  $ cella images build --python /opt/py/bin/python3 --name team-python:2
  $ cella images build --no-packages                only Python and its standard library
  $ cella images build --base python:3.12-slim      after \`docker pull python:3.12-slim\`

The image gets this Python with its standard library and packages, a shell, common programs and the
libraries that they need. It does not contain home folders, keys, or files that only
some users may read. \`--executor container\` uses cella-python:local if you give no --image.`,
  list: `
Examples:
  $ cella images list
  $ cella images list --json | jq -r '.images[].name'`,
  delete: `
Examples:
  $ cella images delete cella-python:local

Deletes only images that Cella has built. Keeps and reports an image that a container uses.`,
};
