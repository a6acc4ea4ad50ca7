/** Walks the command line by what its help pages list: no part of its source is needed for it. */

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
