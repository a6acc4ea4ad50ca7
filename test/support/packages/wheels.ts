/** Tiny wheels for tests, made byte by byte: each is a zip that pip and uv take for what it is, unless told to lie. */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';

export interface WheelOptions {
  readonly version?: string;
  /** By path in the wheel. Without it there is one module of the package's name, with its version as `VERSION`. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  readonly requires?: readonly string[];
  readonly requiresPython?: string;
  readonly tag?: string;
  /** The checksum of this file in the zip is wrong, so that it fails while it is unpacked. */
  readonly damaged?: string;
  /** What it says of itself inside, in place of the truth. */
  readonly metadata?: string;
  /** More files, which may be anything that a zip can hold. */
  readonly extra?: readonly ZipFile[];
}

export interface ZipFile {
  readonly path: string;
  readonly content: string | Uint8Array;
  readonly mode?: number;
  readonly deflated?: boolean;
  /** What the directory says in place of the truth. */
  readonly crc?: number;
  readonly bytes?: number;
  /** What the file's own header says in place of its path. */
  readonly localPath?: string;
  readonly flags?: number;
  readonly method?: number;
}

/** Writes it into `folder` and gives its path. */
export async function makeWheel(folder: string, name: string, options: WheelOptions = {}): Promise<string> {
  const { version = '1.0.0', requires = [], requiresPython = '>=3.8', tag = 'py3-none-any' } = options;
  const base = name.replaceAll('-', '_');
  const info = `${base}-${version}.dist-info`;
  const metadata = [
    'Metadata-Version: 2.1',
    `Name: ${name}`,
    `Version: ${version}`,
    ...(requiresPython === '' ? [] : [`Requires-Python: ${requiresPython}`]),
    ...requires.map((requirement) => `Requires-Dist: ${requirement}`),
    '',
  ].join('\n');
  const files: Record<string, string | Uint8Array> = {
    ...(options.files ?? { [`${base}.py`]: `VERSION = ${JSON.stringify(version)}\n` }),
    [`${info}/METADATA`]: options.metadata ?? metadata,
    [`${info}/WHEEL`]: `Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: ${tag}\n`,
  };
  const record = Object.entries(files).map(([path, content]) => recordLine(path, Buffer.from(content)));
  files[`${info}/RECORD`] = [...record, `${info}/RECORD,,`, ''].join('\n');
  const path = join(folder, `${base}-${version}-${tag}.whl`);
  await mkdir(folder, { recursive: true });
  const all = Object.entries(files).map(([at, content]) => ({
    path: at,
    content,
    ...(at === options.damaged ? { crc: crc32(content) ^ 1 } : {}),
  }));
  await writeFile(path, makeZip([...all, ...(options.extra ?? [])]));
  return path;
}

function recordLine(path: string, content: Buffer): string {
  const hash = createHash('sha256').update(content).digest('base64url');
  return `${path},sha256=${hash},${content.length}`;
}

/** Local headers with their data, then the directory of them all. */
export function makeZip(files: readonly ZipFile[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { path, content, mode = 0o100644, deflated = false, ...lies } of files) {
    const whole = Buffer.from(content);
    const data = deflated ? deflateRawSync(whole) : whole;
    const header = (name: Buffer) => {
      const common = Buffer.alloc(26);
      common.writeUInt16LE(20, 0); // version needed
      common.writeUInt16LE(lies.flags ?? 0x0800, 2); // names are UTF-8
      common.writeUInt16LE(lies.method ?? (deflated ? 8 : 0), 4);
      common.writeUInt16LE(0x5021, 8); // 2020-01-01
      common.writeUInt32LE((lies.crc ?? crc32(whole)) >>> 0, 10);
      common.writeUInt32LE(data.length, 14);
      common.writeUInt32LE(lies.bytes ?? whole.length, 18);
      common.writeUInt16LE(name.length, 22);
      return common;
    };
    const place = Buffer.alloc(14);
    place.writeUInt32LE((mode << 16) >>> 0, 6);
    place.writeUInt32LE(offset, 10);
    const name = Buffer.from(path);
    const localName = Buffer.from(lies.localPath ?? path);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), header(localName), localName, data]);
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x03'), header(name), place, name]));
    parts.push(local);
    offset += local.length;
  }
  const entries = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(directory.length, 4);
  end.writeUInt16LE(directory.length, 6);
  end.writeUInt32LE(entries.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, entries, Buffer.from('PK\x05\x06'), end]);
}
