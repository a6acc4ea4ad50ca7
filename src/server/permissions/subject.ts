/** What of a request a rule is about: all that decides what the tool does, never a text that may be cut. */

/** A `command` goes to a shell; a `path` names a file; a `text` is anything else. */
export interface Subject {
  readonly kind: 'command' | 'path' | 'text';
  readonly text: string;
}

/** A tool call that a rule may allow. */
export interface RuledBy {
  readonly tool: string;
  readonly subject: Subject;
  /** The digest of a kernel tool's definition. */
  readonly definition?: string | undefined;
}

export interface Wanted {
  readonly tool: string;
  readonly summary: string;
  readonly input?: unknown;
}

/**
 * The tools of agents that are known: the field that says what they do, and those that a rule need not be about. With any
 * other field, as of all other tools, the whole input counts: what it changes is not known here.
 */
const known = new Map<string, readonly [kind: Subject['kind'], field: string, rest: readonly string[]]>([
  ['Bash', ['command', 'command', ['description', 'timeout']]],
  ['Read', ['path', 'file_path', ['offset', 'limit', 'pages']]],
  ['Edit', ['path', 'file_path', ['old_string', 'new_string', 'replace_all']]],
  ['MultiEdit', ['path', 'file_path', ['edits']]],
  ['Write', ['path', 'file_path', ['content']]],
  ['NotebookEdit', ['path', 'notebook_path', ['cell_id', 'cell_type', 'edit_mode', 'new_source']]],
  ['WebFetch', ['text', 'url', ['prompt']]],
  ['WebSearch', ['text', 'query', ['allowed_domains', 'blocked_domains']]],
]);

const NAME = /^[A-Za-z0-9_.:/-]{1,200}$/;
/** Tools of kernels have this before their names: no agent's tool can be taken for one. */
const OF_KERNEL = 'tools.';

/** Undefined where no rule can be about it. */
export function subjectOfAgent({ tool, summary, input }: Wanted): Subject | undefined {
  if (!NAME.test(tool) || tool.startsWith(OF_KERNEL)) return undefined;
  if (input === undefined || input === null) return { kind: 'text', text: summary };
  const [kind, field, rest = []] = known.get(tool) ?? [];
  const isKnown = ([name, value]: [string, unknown]) => name === field || rest.includes(name) || !value;
  if (kind === undefined || field === undefined || !Object.entries(input).every(isKnown)) {
    return { kind: kind ?? 'text', text: JSON.stringify(input) };
  }
  const value = new Map(Object.entries(input)).get(field);
  return typeof value === 'string' ? { kind, text: value } : undefined;
}

/** What a kernel's code calls: the summary is made by the host, and is all of it. */
export function subjectOfTool({ summary }: Wanted): Subject {
  return { kind: 'command', text: summary };
}

export function kernelTool(tool: string, recipe: string | undefined): string {
  return `${OF_KERNEL}${recipe === undefined ? tool : `${tool}.${recipe}`}`;
}
