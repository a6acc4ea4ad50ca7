/** What can be done with the images of kernels, and what is told of it. */

import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { ImageCommands, ImageRequest } from '../context.ts';
import { escapeControls, formatSize } from '../format.ts';

const columns = [
  { title: 'NAME' },
  { title: 'PYTHON' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'MADE' },
  { title: 'ID' },
];

export async function build(
  request: ImageRequest,
  images: ImageCommands,
  report: CommandOutput,
  signal: AbortSignal,
): Promise<number> {
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
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

export async function list(engine: string | undefined, images: ImageCommands, report: CommandOutput): Promise<number> {
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

export async function remove(
  name: string,
  engine: string | undefined,
  images: ImageCommands,
  report: CommandOutput,
): Promise<number> {
  const image = await images.removeImage(name, engine);
  await report.success({ removed: image }, `Removed ${escapeControls(image.name)}.`);
  return Exit.ok;
}
