/** Walks the command line by what its help pages list, and writes the reference of docs/cli.md from them. */

import { runHere } from '../support/cli/cli-here.ts';

export interface HelpPage {
  /** Such as `checkpoints list`; empty for `cella` itself. */
  readonly path: string;
  readonly text: string;
}

/** The page of `cella` and of every command below it. */
export async function allHelp(words: readonly string[] = []): Promise<HelpPage[]> {
  const { code, out, err } = await runHere([...words, '--help'], '/nonexistent');
  if (code !== 0) throw new Error(`cella ${words.join(' ')} --help ended with ${code}: ${err}`);
  const [, commands = ''] = /^Commands:\n((?: {2}.*\n)+)/m.exec(out) ?? [];
  const names = [...commands.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name = '']) => name);
  const pages = [{ path: words.join(' '), text: out }];
  // `help` is no command of its own: its page is that of what it is asked about.
  for (const name of names.filter((each) => each !== 'help')) pages.push(...(await allHelp([...words, name])));
  return pages;
}

/** Groups of options that many commands have. The reference has each of them once. */
const SHARED = ['Storage', 'Server', 'Session', 'Packages', 'Executor'] as const;

const titleOf = (group: string) => `${group.replace(/s$/, '')} options`;

const anchorOf = (title: string) => title.toLowerCase().replace(' ', '-');

/** One section per command, in the order of the help; then the shared options. */
export function referenceOf(pages: readonly HelpPage[]): string {
  const shared = new Map<string, string>();
  const sections = pages.map(({ path, text }) => {
    const used: string[] = [];
    const own = text
      .trimEnd()
      .split('\n\n')
      .filter((block) => {
        const group = SHARED.find((name) => block.startsWith(`${name}:\n  --`));
        if (group === undefined) return true;
        used.push(group);
        const options = block.slice(group.length + 2);
        if (options.length > (shared.get(group)?.length ?? 0)) shared.set(group, options);
        return false;
      })
      .join('\n\n')
      .replace(/^ +-h, --help +show this help$\n?/m, '')
      .replace(/^Options:\n\n/m, '');
    const heading = `${path.includes(' ') ? '###' : '##'} ${`cella ${path}`.trim()}`;
    const links = used.map((group) => `[${titleOf(group).toLowerCase()}](#${anchorOf(titleOf(group))})`);
    const more = links.length === 0 ? '' : `\nIt also takes the ${links.join(', ')}.\n`;
    return `${heading}\n\n\`\`\`\n${own.trimEnd()}\n\`\`\`\n${more}`;
  });
  const groups = SHARED.map((name) => `### ${titleOf(name)}\n\n\`\`\`\n${shared.get(name)}\n\`\`\`\n`);
  return [...sections, '## Shared options\n', ...groups].join('\n');
}
