/** What can be done with the images of kernels, and what is told of it. */

import type { ImageRequest, Images } from '../context.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import { sizeToText, toPlain } from '../texts.ts';

const columns = [
  { title: 'NAME' },
  { title: 'PYTHON' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'MADE' },
  { title: 'ID' },
];

export async function build(
  request: ImageRequest,
  images: Images,
  report: Report,
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
  await report.done({ image }, `Made ${name}: Python ${python}, ${sizeToText(bytes)}.\n${next}`);
  if (missing.length === 0) return Exit.ok;
  await report.warn([`cella: this machine lacks libraries that parts of it need: ${missing.map(toPlain).join(', ')}.`]);
  return Exit.ok;
}

export async function list(engine: string | undefined, images: Images, report: Report): Promise<number> {
  const found = await images.listImages(engine);
  if (found.length === 0) {
    await report.nothing({ images: [] }, 'Cella has made no images here. `cella image build` makes one.');
    return Exit.ok;
  }
  const rows = found.map(({ name, python = '', bytes, createdAt, id }) => {
    const made = new Date(createdAt).toISOString().slice(0, 16).replace('T', ' ');
    return [name, python, sizeToText(bytes), made, id.replace(/^sha256:/, '').slice(0, 12)];
  });
  await report.table({ images: found }, columns, rows);
  return Exit.ok;
}

export async function remove(
  name: string,
  engine: string | undefined,
  images: Images,
  report: Report,
): Promise<number> {
  const image = await images.removeImage(name, engine);
  await report.done({ removed: image }, `Removed ${toPlain(image.name)}.`);
  return Exit.ok;
}
