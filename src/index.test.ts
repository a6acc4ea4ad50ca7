/** The pages name what is there: exports, options and variables. */

import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SessionOptions } from './session/options.ts';

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const docs = readdirSync(new URL('../docs', import.meta.url)).filter((name) => name.endsWith('.md'));
const pages = ['README.md', ...docs.map((name) => `docs/${name}`)];
const exported = new Set(
  [...read('src/index.ts').matchAll(/\{([^}]*)\}/g)].flatMap(([, names = '']) =>
    names.split(',').map((name) => name.replace(/\btype\b/, '').trim()),
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

  it('tell every variable that Cella reads', () => {
    const page = read('docs/cli.md');
    const variables = new Set(read('src/environment.ts').match(/CELLA_[A-Z_]+/g));
    expect([...variables].filter((name) => !page.includes(name))).toEqual([]);
  });

  it('lead to each other and to no page that is not there', () => {
    const broken = pages.flatMap((page) => {
      const links = [...read(page).matchAll(/\]\(([\w./-]+\.md)(?:#[\w-]+)?\)/g)].map(([, link = '']) => link);
      const known = new Set([...pages, 'CONTRIBUTING.md', 'CHANGELOG.md']);
      return links
        .map((link) => new URL(link, `file:///${page}`).pathname.slice(1))
        .filter((target) => !known.has(target))
        .map((target) => `${page}: ${target}`);
    });
    expect(broken).toEqual([]);
  });
});
