/** What an index and a package say of themselves, and what code asks of them. */

import { type FileHandle, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Target } from '../engine.ts';

const BASE = new URL('https://example.org/simple/a/');
const ENVIRONMENT = { python_version: '3.11', sys_platform: 'linux', os_name: 'posix', extra: '' };
const LIMITS = { files: 50, unpackedBytes: 64 * 1024 };
/** To unpack takes a hundred times as long as to look: it is done for one input of so many. */
const SELDOM = 64;

/** The first line says what it is; without one that is known, it is taken for each of the texts. */
export async function packages(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { checkPackageName, parseRequirement } = await import('../../../src/protocol/requirement.ts');
  const { ResolutionError } = await import('../../../src/namespaces/deps/resolver/resolver-limits.ts');
  const { consoleScripts, readWheelMetadata, unpackWheel } = await import(
    '../../../src/namespaces/deps/resolver/wheel.ts'
  );
  const { DEFAULT_LIMITS } = await import('../../../src/namespaces/deps/resolver/resolver-limits.ts');
  const { parseCondition, satisfies, splitConditions, wantsPrereleases } = await import(
    '../../../src/namespaces/deps/resolver/pep440.ts'
  );
  const { parseMarker } = await import('../../../src/namespaces/deps/resolver/pep508.ts');
  const { parseMetadata, requirementsOf } = await import('../../../src/namespaces/deps/resolver/pep508.ts');
  const { parseIndexPage: readPage } = await import('../../../src/namespaces/deps/resolver/package-index.ts');
  const { compareVersions, parseVersion } = await import('../../../src/namespaces/deps/resolver/pep440.ts');
  const { parseFileName } = await import('../../../src/namespaces/deps/resolver/package-index.ts');
  const { readContent } = await import('../../../src/namespaces/deps/resolver/zip.ts');
  const { readDirectory, staysInside } = await import('../../../src/namespaces/deps/resolver/zip.ts');

  const { signal } = new AbortController();

  const page = (type: string) => async (text: string) => {
    for (const { filename, url } of (await readPage(text, type, BASE)) ?? []) {
      parseFileName(filename, 'a');
      if (url.hash !== '') throw new Error(`an address with a fragment: ${url}`);
    }
  };
  const kinds: Readonly<Record<string, (text: string) => void | Promise<void>>> = {
    json: page('application/vnd.pypi.simple.v1+json'),
    html: page('text/html'),
    file: (text) => void parseFileName(text, 'a'),
    metadata: async (text) => {
      const metadata = await parseMetadata(text);
      if (metadata) await requirementsOf(metadata, ['test'], ENVIRONMENT, 'a');
    },
    marker: (text) => void parseMarker(text)?.(ENVIRONMENT),
    version: (text) => {
      const [one, other] = text.split(' ').map(parseVersion);
      if (!one || !other) return;
      if (compareVersions(one, other) + compareVersions(other, one) !== 0) throw new Error('an order that is none');
      for (const condition of splitConditions(text)) parseCondition(condition)?.(one);
    },
    conditions: (text) => {
      const [version = '', ...rest] = text.split(' ');
      const conditions = splitConditions(rest.join(' '));
      wantsPrereleases(conditions);
      const parsed = parseVersion(version);
      if (parsed) satisfies(parsed, conditions);
    },
    requirement: (text) => {
      const { text: spelled } = parseRequirement(text);
      if (parseRequirement(spelled).text !== spelled) throw new Error('a requirement that changes');
      if (/[\s;@/\\]|^-/.test(spelled)) throw new Error(`more than a requirement: ${spelled}`);
      checkPackageName(text);
    },
    scripts: (text) => {
      for (const { name, module, attribute } of consoleScripts(text)) {
        if (!/^[\w.-]+$/.test(name) || !/^[\w.]+$/.test(module + attribute)) throw new Error('a script that is none');
      }
    },
  };

  const zip = async (bytes: Buffer): Promise<void> => {
    const file = fileOf(bytes);
    for (const entry of await readDirectory(file, LIMITS)) {
      if (!staysInside(entry.path) || entry.path.split('/').includes('..')) throw new Error(`a way out: ${entry.path}`);
      if (entry.isFolder || bytes.length % (entry.method === 'stored' ? 4 : SELDOM) !== 0) continue;
      const content = await readContent(file, entry, LIMITS.unpackedBytes);
      if (content.length !== entry.bytes) throw new Error('more or less than was said');
    }
    if (bytes.length % SELDOM === 0) await unpacked(bytes);
  };

  /** Beside the folder of a wheel. */
  let written: string[] = [];

  /** Of what a wheel holds, nothing comes to lie outside of its folder. */
  const unpacked = async (bytes: Buffer): Promise<void> => {
    const around = await mkdtemp(join(tmpdir(), 'cella-fuzz-'));
    const [path, folder] = [join(around, 'a.whl'), join(around, 'target')];
    const limits = { ...DEFAULT_LIMITS, ...LIMITS };
    try {
      await writeFile(path, bytes);
      await unpackWheel(path, { folder, pure: bytes.at(-1) === 1, limits, signal }).catch((error) => {
        // A file where another one needs a folder.
        if (!['EEXIST', 'ENOTDIR', 'EISDIR'].includes(error.code)) throw error;
      });
      await readWheelMetadata(path, limits);
    } finally {
      written = (await readdir(around)).filter((name) => name !== 'a.whl' && name !== 'target');
      await rm(around, { recursive: true, force: true });
    }
  };
  const attempt = (error: unknown) => {
    if (!(error instanceof ResolutionError) && !(error instanceof CellaError && error.code === 'DEPS_INVALID'))
      throw error;
  };
  const attempted = async (work: () => void | Promise<void>) => {
    try {
      await work();
    } catch (error) {
      attempt(error);
    }
  };

  return {
    name: 'packages',
    parser: [
      { file: 'protocol/requirement.ts' },
      {
        file: 'namespaces/deps/resolver/pep440.ts',
        functions: [
          'parseCondition',
          'parsePattern',
          'testFor',
          'isSame',
          'isBefore',
          'isAfter',
          'publicPart',
          'isSameBase',
          'beginsWith',
          'satisfies',
          'wantsPrereleases',
          'splitConditions',
        ],
      },
      {
        file: 'namespaces/deps/resolver/wheel.ts',
        functions: ['consoleScripts', 'readWheelMetadata', 'unpackWheel', 'installPath', 'script'],
      },
      { file: 'namespaces/deps/resolver/package-index.ts', functions: ['linksIn', 'attributesIn', 'decodeEntities'] },
      {
        file: 'namespaces/deps/resolver/pep508.ts',
        functions: [
          'parseMarker',
          'tokenize',
          'MarkerReader',
          'atEnd',
          'either',
          '#all',
          '#joined',
          '#one',
          '#term',
          '#take',
          'holds',
          'read',
        ],
      },
      {
        file: 'namespaces/deps/resolver/pep508.ts',
        functions: ['parseMetadata', 'fieldsOf', 'requirementsOf', 'understood', 'notUnderstood', 'short'],
      },
      {
        file: 'namespaces/deps/resolver/package-index.ts',
        functions: ['parseIndexPage', 'parseJsonPage', 'parseHtmlPage', 'sha256Of', 'urlOf'],
      },
      {
        file: 'namespaces/deps/resolver/pep440.ts',
        functions: [
          'parseVersion',
          'numberOf',
          'isPrerelease',
          'compareVersions',
          'compareReleases',
          'preKey',
          'optional',
          'compareLocals',
          'key',
          'compareParts',
          'compare',
        ],
      },
      { file: 'namespaces/deps/resolver/package-index.ts', functions: ['parseFileName', 'parseWheel', 'parseSource'] },
      {
        file: 'namespaces/deps/resolver/zip.ts',
        functions: ['contentOf', 'readContent', 'dataStart', 'pieces', 'inflated', 'damaged'],
      },
      {
        file: 'namespaces/deps/resolver/zip.ts',
        functions: ['readDirectory', 'readAt', 'entriesIn', 'entryAt', 'staysInside', 'checkTogether'],
      },
    ],
    words: [
      ...[
        'json\n',
        'html\n',
        'metadata\n',
        'marker\n',
        '<a ',
        'href="',
        '&#x41;',
        '&amp;',
        '>',
        '"',
        "'",
        ' and ',
        ' or ',
        '(',
      ],
      ...[
        ')',
        ' not in ',
        '>=1.0',
        '==2.*',
        '~=1',
        '1!2.0rc1.post2.dev3+local.1',
        '[x]',
        ';',
        ',',
        '@',
        '://',
        '-',
        '.whl',
      ],
      ...['Requires-Dist: ', '../', '\\', 'PK\x01\x02', 'PK\x05\x06', '\xff\xff\xff\xff', '\0', '\n '],
    ],
    take: async (input) => {
      const end = input.indexOf(10);
      const kind = input.toString('latin1', 0, Math.max(0, end));
      if (kind === 'zip') {
        return zip(Buffer.from(input.subarray(end + 1)))
          .catch(attempt)
          .then(() => {
            if (written.length > 0) throw new Error(`it has written ${written}`);
          });
      }
      const text = input.toString('utf8', end + 1);
      const known = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
      for (const read of known ? [known] : Object.values(kinds)) await attempted(() => read(text));
    },
  };
}

function fileOf(bytes: Buffer): FileHandle {
  const file = {
    stat: async () => ({ size: bytes.length }),
    read: async (into: Buffer, at: number, length: number, from: number) => ({
      bytesRead: from >= bytes.length ? 0 : bytes.copy(into, at, from, Math.min(bytes.length, from + length)),
    }),
  };
  return file as unknown as FileHandle;
}
