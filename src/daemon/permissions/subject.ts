/** What of a request a rule is about: all that decides what the tool does, never a text that may be cut. */

/** A `command` goes to a shell; a `path` names a file; a `text` is anything else. */
export interface Subject {
  readonly kind: 'command' | 'path' | 'text';
  readonly text: string;
}

export interface Wanted {
  readonly tool: string;
  readonly summary: string;
  readonly input?: unknown;
}

/** The tools of agents that are known, and the field that says what they do; of all others, the whole input counts. */
const known = new Map<string, readonly [Subject['kind'], string]>([
  ['Bash', ['command', 'command']],
  ['Read', ['path', 'file_path']],
  ['Edit', ['path', 'file_path']],
  ['MultiEdit', ['path', 'file_path']],
  ['Write', ['path', 'file_path']],
  ['NotebookEdit', ['path', 'notebook_path']],
  ['WebFetch', ['text', 'url']],
  ['WebSearch', ['text', 'query']],
]);

const NAME = /^[A-Za-z0-9_.:/-]{1,200}$/;
/** Tools of kernels have this before their names: no agent's tool can be taken for one. */
const OF_KERNEL = 'tools.';

/** Undefined where no rule can be about it. */
export function subjectOfAgent({ tool, summary, input }: Wanted): Subject | undefined {
  if (!NAME.test(tool) || tool.startsWith(OF_KERNEL)) return undefined;
  if (input === undefined || input === null) return { kind: 'text', text: summary };
  const [kind, field] = known.get(tool) ?? [];
  if (kind === undefined || field === undefined) return { kind: 'text', text: JSON.stringify(input) };
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
