/** The result of an execution, or an error, as the content that a model reads. Output that is too long is saved as an artifact. */
import { createHash } from 'node:crypto';
import type { CallToolResult, ImageContent } from '@modelcontextprotocol/server';
import { CellaError, errorCodes } from '../protocol/errors.ts';
import type { ExecutionEvent, MimeBundle, ResultEvent, Woken } from '../protocol/execution-events.ts';
import type { LostName } from '../protocol/kernel-state.ts';
import type { ArtifactsApi } from '../session/api.ts';

/** What a model can use of one answer, in characters. */
export const MAX_RESULT_CHARACTERS = 30_000;
/** Of a value or a traceback. */
const MAX_PART_CHARACTERS = 8000;
const MAX_NOTICE_CHARACTERS = 4000;

interface ExecutionReport {
  readonly result: CallToolResult;
  /** Set if the result was cut: all of the text, or as much as was kept. */
  readonly fullOutput: { readonly text: string; readonly complete: boolean } | undefined;
}

export function toExecutionReport(result: ResultEvent, output: BoundedOutput): ExecutionReport {
  const lines = stateNotices(result).map((line) => `[notice] ${line}`);
  const notices = cutMiddle(lines.join('\n'), MAX_NOTICE_CHARACTERS);
  const rest = [valueText(result, output) ?? '', result.error?.traceback || result.error?.message || ''];
  const cutRest = rest.map((part) => cutMiddle(part, MAX_PART_CHARACTERS));
  const ends = describeEnd(result);
  const room = MAX_RESULT_CHARACTERS - [notices, ...cutRest, ...ends].reduce((total, part) => total + part.length, 0);
  const printed = output.text.toString();
  const isCut = printed.length > room || rest.some((part) => part.length > MAX_PART_CHARACTERS);
  const text =
    joinLines([notices, cutMiddle(printed, room, output.text.lost), ...cutRest, ...ends]) || '[done, with no output]';
  return {
    result: {
      content: [{ type: 'text', text }, ...output.images.content],
      ...(result.status === 'ok' ? {} : { isError: true }),
      _meta: { 'cella/status': result.status, 'cella/execution': result.execution },
    },
    fullOutput: isCut ? { text: joinLines([printed, ...rest]), complete: output.text.lost === 0 } : undefined,
  };
}

/** Adds a line to the text, before the images. */
export function appendLine(result: CallToolResult, line: string): CallToolResult {
  const [first, ...others] = result.content;
  const text = first?.type === 'text' ? `${first.text}\n` : '';
  return { ...result, content: [{ type: 'text', text: `${text}${line}` }, ...others] };
}

function valueText({ repr, data, truncated }: ResultEvent, output: BoundedOutput): string | undefined {
  const image = data === undefined ? undefined : output.images.take(data);
  if (image !== undefined) return image;
  const more = truncated?.reprCharacters;
  return more && repr !== undefined ? `${repr}\n[${more} more characters of this value]` : repr;
}

/** How it ended, unless it just finished. */
function describeEnd({ status, durationMs, death, transaction, exitCode }: ResultEvent): string[] {
  const ends: string[] = [];
  const after = `${(durationMs / 1000).toFixed(1)} s`;
  if (status === 'timeout')
    ends.push(`[stopped after ${after}, at the time limit; names that were set before are kept]`);
  if (status === 'interrupted') ends.push(`[interrupted after ${after}; names that were set before are kept]`);
  if (death) ends.push(`[${death.code}: ${death.message} ${errorCodes[death.code].advice}]`);
  if (exitCode === 0) ends.push('[the code called sys.exit(); the kernel goes on]');
  if (transaction === 'rolled_back') ends.push('[rolled back: names are again what they were before this code]');
  return ends;
}

function joinLines(parts: readonly string[]): string {
  return parts
    .filter((part) => part !== '')
    .map((part, index, all) => (index === all.length - 1 || part.endsWith('\n') ? part : `${part}\n`))
    .join('');
}

const MAX_NAMES = 40;

function stateNotices({ recovered, woken }: ResultEvent): string[] {
  if (recovered) {
    const ended = `The kernel before this one has ended: ${recovered.cause.message} Nothing is run again.`;
    return [ended, ...describeRestored(recovered)];
  }
  return woken && restoredAnything(woken) ? describeRestored(woken) : [];
}

/** False for a save without variables: there is nothing to report. */
function restoredAnything({ savedAgoMs, restored, lost }: Woken): boolean {
  return savedAgoMs === undefined || restored.length + lost.length > 0;
}

function describeRestored({ savedAgoMs, restored, lost }: Woken): string[] {
  const back =
    savedAgoMs === undefined
      ? 'There is no save that can be read: every name is gone.'
      : `Names came back from a save of ${formatSeconds(savedAgoMs)} ago: ${listNames(restored)}.`;
  return [back, ...describeLost(lost)];
}

function describeLost(lost: readonly LostName[]): string[] {
  if (lost.length === 0) return [];
  const described = lost
    .slice(0, MAX_NAMES)
    .map(({ name, reason }) => `${name === '*' ? 'what was saved' : name} (${reason})`);
  return [`Did not come back: ${described.join(', ')}${countRest(lost.length)}.`];
}

function listNames(all: readonly string[]): string {
  return all.length === 0 ? 'no names' : all.slice(0, MAX_NAMES).join(', ') + countRest(all.length);
}

function countRest(count: number): string {
  return count > MAX_NAMES ? ` and ${count - MAX_NAMES} more` : '';
}

function formatSeconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
}

const OUTPUT_KIND = 'output of run_code';
/** Per agent key; older ones are deleted. */
const MAX_KEPT_ARTIFACTS = 20;

interface FullOutput {
  readonly agentKey: string;
  readonly execution: number;
  readonly text: string;
  /** False if the middle was lost. */
  readonly complete: boolean;
}

/** Returns the line that says where the full output is. Never throws: the result matters more than the part that was cut. */
export async function saveFullOutput(
  session: { readonly artifacts: ArtifactsApi },
  { agentKey, execution, text, complete }: FullOutput,
): Promise<string> {
  const agent = createHash('sha256').update(agentKey).digest('hex').slice(0, 8);
  const name = `output-${agent}-${execution}.txt`;
  try {
    // A fork that nobody has confirmed has none.
    const { artifacts } = session;
    await artifacts.save(name, Buffer.from(text), {
      type: 'text',
      mediaType: 'text/plain; charset=utf-8',
      description: `${complete ? 'All output' : 'The beginning and the end of the output'} of execution ${execution}.`,
      metadata: { kind: OUTPUT_KIND, agent },
    });
    // One that cannot be deleted is tried again after the next output.
    await deleteOlder(artifacts, agent).catch(() => {});
    const what = complete ? 'All of it is' : 'Its beginning and its end are';
    return `[The output was cut. ${what} in the artifact ${name}: text = artifacts.load(${JSON.stringify(name)})]`;
  } catch (error) {
    const reason = error instanceof CellaError ? error.message : 'it could not be kept';
    return `[The output was cut, and its rest is lost: ${reason}]`;
  }
}

async function deleteOlder(artifacts: ArtifactsApi, agent: string): Promise<void> {
  const all = await artifacts.list();
  const own = all.filter(({ metadata }) => metadata.kind === OUTPUT_KIND && metadata.agent === agent);
  const newestFirst = own.toSorted((one, other) => other.updatedAt - one.updatedAt);
  for (const { name } of newestFirst.slice(MAX_KEPT_ARTIFACTS)) await artifacts.delete(name);
}

export type LogLine = (line: string) => void;

export function toErrorResult(error: unknown, log: LogLine): CallToolResult {
  if (error instanceof CellaError) {
    return {
      isError: true,
      content: [{ type: 'text', text: `${error.code}: ${error.message}\n${error.advice}` }],
      _meta: { 'cella/code': error.code },
    };
  }
  log(`unexpected error: ${error instanceof Error ? error.stack : String(error)}`);
  const text = 'UNEXPECTED: Cella failed to carry this out. The log of the server says why.';
  return { isError: true, content: [{ type: 'text', text }], _meta: { 'cella/code': 'UNEXPECTED' } };
}

/** What one execution prints and shows, in bounded memory: text with its middle cut out, and images that a model can read. */

/** Text forms of a value, the most telling first. */
const TEXT_TYPES = ['text/plain', 'text/markdown', 'text/html', 'image/svg+xml', 'application/json'];

/** What one execution prints and shows, in order. */
export class BoundedOutput {
  readonly text = new HeadTailBuffer();
  readonly images = new ImageCollector();

  take(event: ExecutionEvent): void {
    if (event.type === 'stdout' || event.type === 'stderr') this.text.append(event.text);
    else if (event.type === 'display') this.#line(this.show(event.data));
  }

  /** Keeps the image of a value, and returns the text that stands for it. */
  show(data: MimeBundle): string | undefined {
    const image = this.images.take(data);
    if (image !== undefined) return image;
    const found = TEXT_TYPES.map((type) => data[type]).find((form) => typeof form === 'string');
    return typeof found === 'string' ? found : `[${Object.keys(data).join(', ')}: cannot be shown here]`;
  }

  #line(text: string | undefined): void {
    if (text === undefined) return;
    this.text.endLine();
    this.text.append(`${text}\n`);
  }
}

const MAX_HEAD = 8 * 1024 * 1024;
const MAX_TAIL = 64 * 1024;

/** Text of any length: keeps its head and its tail, and counts what is lost between them. */
export class HeadTailBuffer {
  readonly #kept: string[] = [];
  #keptLength = 0;
  #end = '';
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Characters that are not kept. */
  get lost(): number {
    return this.#length - this.#keptLength - this.#end.length;
  }

  append(text: string): void {
    this.#length += text.length;
    const room = MAX_HEAD - this.#keptLength;
    const fits = text.slice(0, room);
    if (fits !== '') this.#kept.push(fits);
    this.#keptLength += fits.length;
    if (text.length > fits.length) this.#end = (this.#end + text.slice(fits.length)).slice(-MAX_TAIL);
  }

  /** Puts what follows on a line of its own. */
  endLine(): void {
    const last = this.#end || this.#kept.at(-1) || '\n';
    if (!last.endsWith('\n')) this.append('\n');
  }

  /** All that is kept. */
  toString(): string {
    const gap = this.lost > 0 ? gapOf(this.lost, 'were not kept') : '';
    return (this.#kept.join('') + gap + this.#end).toWellFormed();
  }
}

/** The beginning and the end, where it is longer than `most` characters; the middle, and what was lost of it, is counted. */
export function cutMiddle(text: string, most: number, lost = 0): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most * 2) / 3);
  const tail = most - head;
  const middle = gapOf(text.length - most + lost, 'left out');
  return (text.slice(0, head) + middle + text.slice(text.length - tail)).toWellFormed();
}

function gapOf(characters: number, what: string): string {
  return `\n[… ${characters.toLocaleString('en')} characters ${what} …]\n`;
}

/** What models can look at. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const MAX_IMAGES = 12;
/** Of base64, in all: clients take messages of up to 10 MB. */
const MAX_BASE64_CHARACTERS = 5_000_000;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

class ImageCollector {
  readonly #content: ImageContent[] = [];
  #characters = 0;

  get content(): readonly ImageContent[] {
    return this.#content;
  }

  /** Takes the image of a value and returns the text that stands for it; undefined if the value has no image. */
  take(data: MimeBundle): string | undefined {
    const mimeType = IMAGE_TYPES.find((type) => typeof data[type] === 'string');
    const image = mimeType === undefined ? undefined : data[mimeType];
    if (mimeType === undefined || typeof image !== 'string') return undefined;
    const tooMuch = this.#content.length >= MAX_IMAGES || this.#characters + image.length > MAX_BASE64_CHARACTERS;
    const size = `${mimeType}, ${Math.ceil((image.length * 3) / 4 / 1000)} kB`;
    if (tooMuch) return `[${size}: too much to show; make it smaller, or save it with artifacts.save()]`;
    const base64 = image.replace(/\s+/g, '');
    if (!BASE64.test(base64) || base64.length % 4 !== 0) return `[${mimeType}: its data is no base64, not shown]`;
    this.#characters += base64.length;
    this.#content.push({ type: 'image', data: base64, mimeType });
    return `[picture ${this.#content.length}: ${size}]`;
  }
}
