/**
 * The root of an image whose Python is linked against musl: CPython, libffi and zlib from Debian's sources, compiled by
 * Debian's musl-gcc, with busybox for a shell. It takes some minutes.
 */

import { chmodSync, copyFileSync, globSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command, make } from './commands.ts';
import { DebianArchive } from './debian-archive.ts';
import { NATIVE_AT, NATIVE_SOURCE } from './native-module.ts';

const MACHINE = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const TRIPLET = `${MACHINE}-linux-musl`;

/** Modules that nobody here needs, or that would need a library which is for glibc. */
const LEFT_OUT = `*disabled*
_codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _multibytecodec _bz2 _crypt _curses _curses_panel
_dbm _gdbm _hashlib _lzma _sqlite3 _ssl _tkinter _uuid audioop nis ossaudiodev readline spwd
`;

/** Debian's compiler says that it is for glibc, where CPython asks it for which libraries it compiles. */
const COMPILER = `#!/bin/sh
case "$1" in -print-multiarch | --print-multiarch) echo ${TRIPLET}; exit ;; esac
exec musl-gcc -w "$@"
`;

export async function buildMusl(work: string, root: string): Promise<void> {
  await command(['musl-gcc', '--version']).catch(() => {
    throw new Error('There is no musl-gcc. npm run test:all installs it, or: apt-get install gcc make musl-tools');
  });
  for (const folder of ['archive', 'sources', 'prefix', 'shell']) mkdirSync(join(work, folder));
  const archive = await DebianArchive.open(join(work, 'archive'), 'bookworm');
  await archive.sources(['python3.11', 'libffi', 'zlib'], join(work, 'sources'));
  await archive.unpack(['busybox-static'], join(work, 'shell'));
  await compile(work, root);
  placeLoader(root);
  await placeShell(join(work, 'shell', 'bin', 'busybox'), join(root, 'bin'));
}

async function compile(work: string, root: string): Promise<void> {
  const prefix = join(work, 'prefix');
  const [headers, libraries] = [join(prefix, 'include'), join(prefix, 'lib')];
  placeKernelHeaders(headers);
  const compiler = join(work, 'cc');
  writeFileSync(compiler, COMPILER, { mode: 0o755 });
  const env = {
    CC: compiler,
    OPT: '-DNDEBUG -fwrapv',
    CFLAGS: `-O1 -fPIC -I${headers}`,
    CPPFLAGS: `-I${headers}`,
    LDFLAGS: `-s -L${libraries}`,
    PKG_CONFIG_LIBDIR: join(libraries, 'pkgconfig'),
  };
  const into = (name: string) => ({ cwd: globSync(join(work, 'sources', `${name}-*`))[0] ?? '', env });
  await make(['./configure', '--quiet', `--prefix=${prefix}`, '--disable-shared', '--disable-docs'], into('libffi'));
  await make(['make', '-s', '-j2', 'install'], into('libffi'));
  await make(['./configure', `--prefix=${prefix}`, '--static'], into('zlib'));
  await make(['make', '-s', '-j2', 'libz.a', 'install'], into('zlib'));
  const python = into('Python');
  writeFileSync(join(python.cwd, 'Modules', 'Setup.local'), LEFT_OUT);
  const options = ['--prefix=/usr', '--without-ensurepip', '--disable-test-modules', '--with-system-ffi'];
  await make(['./configure', '--quiet', ...options], python);
  await make(['make', '-s', '-j2'], python);
  await make(['make', '-s', 'install', `DESTDIR=${root}`], python);
  await compileNative(compiler, work, root);
  const unused = ['*.opt-?.pyc', 'libpython*.a', 'config-*', 'idlelib', 'ensurepip', 'lib2to3'];
  for (const path of unused.flatMap((name) => globSync(join(root, 'usr', 'lib', '**', name)))) {
    rmSync(path, { recursive: true, force: true });
  }
}

/** musl-gcc has those of its C library alone. */
function placeKernelHeaders(headers: string): void {
  mkdirSync(headers);
  for (const name of ['linux', 'asm-generic']) symlinkSync(`/usr/include/${name}`, join(headers, name));
  symlinkSync(`/usr/include/${MACHINE}-linux-gnu/asm`, join(headers, 'asm'));
}

async function compileNative(compiler: string, work: string, root: string): Promise<void> {
  const source = join(work, 'native.c');
  writeFileSync(source, NATIVE_SOURCE);
  mkdirSync(join(root, NATIVE_AT, '..'), { recursive: true });
  const headers = globSync(join(root, 'usr', 'include', 'python3.*'))[0];
  await make([compiler, '-shared', '-fPIC', '-s', `-I${headers}`, '-o', join(root, NATIVE_AT), source]);
}

function placeLoader(root: string): void {
  mkdirSync(join(root, 'lib'), { recursive: true });
  copyFileSync(`/usr/lib/${TRIPLET}/libc.so`, join(root, 'lib', `ld-musl-${MACHINE}.so.1`));
}

async function placeShell(busybox: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  copyFileSync(busybox, join(folder, 'busybox'));
  chmodSync(join(folder, 'busybox'), 0o755);
  const names = (await command([busybox, '--list'])).split('\n').filter((name) => name !== '' && name !== 'busybox');
  for (const name of names) symlinkSync('busybox', join(folder, name));
}
