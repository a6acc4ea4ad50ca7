/** The pages name what is there: exports, options, variables and each other. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ServerOptions } from './server/embedded-server.ts';
import { SessionOptions } from './session/session-options.ts';
import { serverSettings } from './settings/settings-table.ts';

const fileOf = (path: string) => new URL(`../${path}`, import.meta.url);
const read = (path: string) => readFileSync(fileOf(path), 'utf8');
const docs = readdirSync(fileOf('docs'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.md'));
const pages = ['README.md', 'CONTRIBUTING.md', ...docs.map((name) => `docs/${name}`)];
const exported = new Set(
  [...read('src/index.ts').matchAll(/\{([^}]*)\}/g)].flatMap(([, names = '']) =>
    names.split(',').map((name) => name.replace(/\btype\b|.*\bas\b/g, '').trim()),
  ),
);

describe('the pages', () => {
  it.each(pages)('%s imports only what the library exports', (page) => {
    const imports = [...read(page).matchAll(/import (?:type )?\{([^}]*)\} from 'cella'/g)];
    const names = imports.flatMap(([, list = '']) =>
      list.split(',').map((name) => name.replace(/^\s*type /, '').trim()),
    );
    expect(names.filter((name) => !exported.has(name))).toEqual([]);
  });

  it('describe every option of a session', () => {
    const page = read('docs/library.md');
    expect(Object.keys(SessionOptions.shape).filter((name) => !page.includes(`| \`${name}\` |`))).toEqual([]);
  });

  it('describe every option of a server', () => {
    const [, section = ''] = read('docs/library.md').split('## A server in your program');
    const own = Object.keys(ServerOptions.shape).filter((name) => !Object.hasOwn(serverSettings, name));
    expect(own.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
  });

  it('describe every variable that Cella reads', () => {
    const page = read('docs/settings.md');
    const variables = new Set(read('src/settings/process-config.ts').match(/CELLA_[A-Z_]+[A-Z]/g));
    expect([...variables].filter((name) => !page.includes(name))).toEqual([]);
  });

  it('link only to existing pages and headings', () => {
    const broken = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\(([\w./-]*)(?:#([\w-]+))?\)/g)]
        .map(([, link = '', anchor]) => ({
          target: new URL(link || basename(page), `file:///${page}`).pathname.slice(1),
          anchor,
        }))
        .filter(({ target, anchor }) => !existsSync(fileOf(target)) || (anchor && !anchorsOf(target).includes(anchor)))
        .map(({ target, anchor }) => `${page}: ${target}#${anchor}`),
    );
    expect(broken).toEqual([]);
  });
});

/** Words of the glossary's last column that mean nothing else here. */
const RETIRED =
  /lodging|lifeline|vigil|staff|curtain|shelf|\bdesk\b|(?<!lighthouse )keeper|(?<!three )\bquarters|mourn|enclos(ure|ed)|\btwin|attendant|approver|\bwish|patience|tenant|\bhosted\b|door|\battends\b/i;
/** Threads and processes can be daemons, and stored data keeps its names: files, collections and locks. */
const DAEMON = /(?<!\\0)daemon(?!\.(json|log|sock)|s?'|-secrets'|=True|s live)/i;
/** Only in code, also inside of names: people are told things, and text has placeholders. */
const RETIRED_IN_CODE = /[tT]old|[hH]eard|[hH]eed|[wW]oken|[aA]sleep|[sS]ilence|(?<![pP]lace)[hH]older|deleteAgent/;
/** These read names that are stored. */
const STORED_NAMES =
  /^(server\/(events\/event-stream|data-folder|run-server|permissions\/permission-records)|protocol\/server-info|storage\/(file|redis)\/(database|locks))\.ts$/;

const filesOf = (folder: string, ending: RegExp) =>
  readdirSync(fileOf(folder), { recursive: true, encoding: 'utf8' }).filter(
    // The words of a search are those that people search with.
    (name) =>
      ending.test(name) &&
      !/search\/lexicon|^index\.test|^search\/|\/search\/stem|fuzz\/corpus|recordings\//.test(name),
  );
const findLines = (path: string, isOld: (line: string) => boolean, text = read(path)) =>
  text.split('\n').flatMap((line, at) => (isOld(line) ? [`${path}:${at + 1}: ${line.trim()}`] : []));
const withoutComment = (line: string) =>
  /^\s*(\/\*|\*)/.test(line) ? '' : line.replace(/\/\*\*.*|(?<=^|\s)\/\/ .*/, '');

it.each([
  ['src', /\.ts$/],
  ['python', /\.py$/],
  ['test', /\.(ts|mjs)$/],
  ['bench', /\.(ts|mjs)$/],
  ['scripts', /\.m?[jt]s$/],
  ['bin', /./],
])('the files of %s and their names use the words of docs/glossary.md', (folder, ending) => {
  const files = filesOf(folder, ending);
  const isOld = (line: string) => RETIRED.test(line) || (/^(src|python)$/.test(folder) && DAEMON.test(line));
  expect(files.filter(isOld)).toEqual([]);
  expect(files.flatMap((name) => findLines(`${folder}/${name}`, isOld))).toEqual([]);
});

it('the code of src uses none of the words that only its texts may have', () => {
  const files = filesOf('src', /(?<!\.test)\.ts$/).filter((name) => !STORED_NAMES.test(name));
  const isOld = (line: string) => RETIRED_IN_CODE.test(withoutComment(line));
  expect(files.flatMap((name) => findLines(`src/${name}`, isOld))).toEqual([]);
});

it('the pages and the latest changes use the words of docs/glossary.md', () => {
  const [, latest = ''] = read('CHANGELOG.md').split(/^## /m);
  // In code spans, the changes have old names. The glossary's last column has the words themselves.
  const prose = (line: string) => line.replaceAll(/`[^`]*`/g, '').replace(/^(\| \*\*.*\|)[^|]*\|$/, '$1');
  const isOld = (line: string) => RETIRED.test(prose(line));
  const all = [...pages, 'SECURITY.md'].flatMap((page) => findLines(page, isOld));
  expect([...all, ...findLines('CHANGELOG.md', isOld, latest)]).toEqual([]);
});

/** As GitHub makes them. */
function anchorsOf(page: string): string[] {
  const headings = [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  );
}
