/** Puts a description into a source as its module docstring, so that one plain file is the whole truth of a skill. */

import type { SkillReading } from './contract.ts';

/** In place of the docstring that is there; else before the first statement, where `from __future__` allows it too. */
export function withDescription(source: string, description: string, { docstring }: SkillReading): string {
  const quoted = quote(description);
  if (docstring !== null) return source.slice(0, docstring.start) + quoted + source.slice(docstring.end);
  const head = /^(?:#!.*\r?\n)?(?:#.*coding[:=].*\r?\n)?/.exec(source)?.[0] ?? '';
  return `${head}${quoted}\n\n${source.slice(head.length)}`;
}

/** A literal that ends where we end it, whatever the text holds. Line breaks stay, for the eyes of a person. */
function quote(text: string): string {
  const escaped = text
    .replaceAll('\r\n', '\n')
    .replaceAll('\\', '\\\\')
    .replace(/"(?="|$)/g, '\\"')
    .replace(/[^\P{Cc}\n\t]/gu, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `"""${escaped}"""`;
}
