/** The programs of a package: scripts that call a function of it, for whichever Python finds them. */

import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readSmall } from './read-small.ts';

const LARGEST = 1024 * 1024;
/** `name = module:function [extra]`; none of it can be anything else in the script. */
const ENTRY = /^([A-Za-z0-9_][A-Za-z0-9._-]{0,100})\s*=\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(?:\[[^\]]*\])?$/;

/** Of all packages in this folder. A script that is there already stays. */
export async function writePrograms(folder: string): Promise<void> {
  const infos = (await readdir(folder)).filter((name) => name.endsWith('.dist-info'));
  const texts = await Promise.all(infos.map((name) => readSmall(join(folder, name, 'entry_points.txt'), LARGEST)));
  for (const { name, module, attribute } of texts.flatMap(consoleScripts)) {
    const path = join(folder, 'bin', name);
    await mkdir(join(folder, 'bin'), { recursive: true });
    await writeFile(path, program(module, attribute), { flag: 'wx', mode: 0o755 }).catch((error) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

export function consoleScripts(text: string): { name: string; module: string; attribute: string }[] {
  let section = '';
  return text.split(/\r?\n/).flatMap((line) => {
    section = /^\s*\[([^\]]*)\]\s*$/.exec(line)?.[1]?.trim() ?? section;
    const [, name, module, attribute] = section === 'console_scripts' ? (ENTRY.exec(line.trim()) ?? []) : [];
    return name === undefined || module === undefined || attribute === undefined ? [] : [{ name, module, attribute }];
  });
}

function program(module: string, attribute: string): string {
  const [first = ''] = attribute.split('.');
  return `#!/usr/bin/env python3\nimport sys\nfrom ${module} import ${first}\nsys.exit(${attribute}())\n`;
}
