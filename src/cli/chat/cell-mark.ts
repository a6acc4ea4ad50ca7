/** Cells that a command of the chat has made tell it in their first line, so that a history shows what was typed. */

/** `line` is the command without its slash and name. It is data, and ends up in a comment. */
export function markedCell(command: string, line: string, code: string): string {
  return `# /${command} ${JSON.stringify(line.toWellFormed())}\n${code}`;
}

const MARK = /^# \/(sh|deps|skills) ("[^\n]*")\n/;

/** What was typed; undefined where the code has no mark. */
export function lineOf(code: string): string | undefined {
  const [, command, quoted] = MARK.exec(code) ?? [];
  if (command === undefined || quoted === undefined) return undefined;
  try {
    return `/${command} ${JSON.parse(quoted)}`;
  } catch {
    return undefined; // somebody's own comment
  }
}
