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

  it('tell every option of a session', () => {
    const page = read('docs/library.md');
    expect(Object.keys(SessionOptions.shape).filter((name) => !page.includes(`| \`${name}\` |`))).toEqual([]);
  });

  it('tell every option of a server', () => {
    const [, section = ''] = read('docs/library.md').split('## A server in your program');
    const own = Object.keys(ServerOptions.shape).filter((name) => !Object.hasOwn(serverSettings, name));
    expect(own.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
  });

  it('tell every variable that Cella reads', () => {
    const page = read('docs/settings.md');
    const variables = new Set(read('src/settings/process-config.ts').match(/CELLA_[A-Z_]+[A-Z]/g));
    expect([...variables].filter((name) => !page.includes(name))).toEqual([]);
  });

  it('lead to pages and headings that are there', () => {
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

/** Words of the glossary's last column that mean nothing else in this code. */
const RETIRED =
  /lodging|lifeline|vigil|staff|curtain|shelf|\bdesk\b|keeper|quarters|mourn|daemon|enclosure|\btwin|attendant/i;
/** Names in stored data, which do not change: files, collections and locks. */
const STORED = /daemon\.(json|log|sock)|'daemons'|'daemon-secrets'|\\0daemon/g;

it('the sources use the words of docs/glossary.md', () => {
  const sources = readdirSync(fileOf('src'), { recursive: true, encoding: 'utf8' })
    // The words of a search are those that people search with.
    .filter((name) => name.endsWith('.ts') && !name.includes('search/lexicon') && name !== 'index.test.ts');
  const old = sources.flatMap((name) =>
    read(`src/${name}`)
      .split('\n')
      .flatMap((line, at) =>
        RETIRED.test(line.replaceAll(STORED, '')) ? [`src/${name}:${at + 1}: ${line.trim()}`] : [],
      ),
  );
  expect(old).toEqual([]);
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
