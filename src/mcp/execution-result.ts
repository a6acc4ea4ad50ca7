/** The result of an execution, or an error, as content for a model. Output that is too long is saved as an artifact. */
import { createHash } from 'node:crypto';
import type { CallToolResult, ImageContent } from '@modelcontextprotocol/server';
import { TruncatedText } from '../lib/truncated-text.ts';
import { everyArtifact } from '../namespaces/artifacts/artifacts-namespace.ts';
import { errorCodes } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent, MimeBundle, ResultEvent, Resumed } from '../protocol/execution-events.ts';
import type { LostVariable } from '../protocol/kernel-state.ts';
import type { ArtifactsApi } from '../session/api.ts';

/** The most characters of one answer that a model can use. */
export const MAX_RESULT_CHARACTERS = 30_000;
/** The limit of a value or a traceback. */
const MAX_PART_CHARACTERS = 8000;
const MAX_NOTICE_CHARACTERS = 4000;

interface ExecutionReport {
  readonly result: CallToolResult;
  /** Set if the result was cut: the full text, or as much as was kept. */
  readonly fullOutput: { readonly text: string; readonly complete: boolean } | undefined;
}

export function toExecutionReport(result: ResultEvent, output: ExecutionOutput): ExecutionReport {
  const lines = stateNotices(result).map((line) => `[notice] ${line}`);
  const notices = cutMiddle(lines.join('\n'), MAX_NOTICE_CHARACTERS);
  const rest = [valueText(result, output) ?? '', result.error?.traceback || result.error?.message || ''];
  const cutRest = rest.map((part) => cutMiddle(part, MAX_PART_CHARACTERS));
  const ends = describeEnd(result);
  const room = MAX_RESULT_CHARACTERS - [notices, ...cutRest, ...ends].reduce((total, part) => total + part.length, 0);
  const { text: printed, lost } = output;
  const isCut = printed.length > room || rest.some((part) => part.length > MAX_PART_CHARACTERS);
  const text = joinLines([notices, cutMiddle(printed, room, lost), ...cutRest, ...ends]) || '[done, with no output]';
  return {
    result: {
      content: [{ type: 'text', text }, ...output.images.content],
      isError: result.status === 'ok' ? undefined : true,
      _meta: { 'cella/status': result.status, 'cella/execution': result.execution },
    },
    fullOutput: isCut ? { text: joinLines([printed, ...rest]), complete: lost === 0 } : undefined,
  };
}

/** Adds a line to the text, before the images. */
export function appendLine(result: CallToolResult, line: string): CallToolResult {
  const [first, ...others] = result.content;
  const text = first?.type === 'text' ? `${first.text}\n` : '';
  return { ...result, content: [{ type: 'text', text: `${text}${line}` }, ...others] };
}

function valueText({ repr, data, truncated }: ResultEvent, output: ExecutionOutput): string | undefined {
  const image = data === undefined ? undefined : output.images.take(data);
  if (image !== undefined) return image;
  const more = truncated?.reprCharacters;
  return more && repr !== undefined ? `${repr}\n[${more} more characters of this value]` : repr;
}

/** How the execution ended, unless it simply finished. */
function describeEnd({ status, durationMs, death, transaction, exitCode }: ResultEvent): string[] {
  const ends: string[] = [];
  const after = `${(durationMs / 1000).toFixed(1)} s`;
  if (status === 'timeout') ends.push(`[stopped after ${after}, at the time limit; the kernel keeps its variables]`);
  if (status === 'interrupted') ends.push(`[interrupted after ${after}; the kernel keeps its variables]`);
  if (death) ends.push(`[${death.code}: ${death.message} ${errorCodes[death.code].advice}]`);
  if (exitCode === 0) ends.push('[the code called sys.exit(); the kernel keeps running]');
  if (transaction === 'rolled_back') ends.push('[rolled back: the variables are as they were before this code]');
  return ends;
}

function joinLines(parts: readonly string[]): string {
  return parts
    .filter((part) => part !== '')
    .map((part, index, all) => (index === all.length - 1 || part.endsWith('\n') ? part : `${part}\n`))
    .join('');
}

const MAX_VARIABLES = 40;

function stateNotices({ recovered, resumed }: ResultEvent): string[] {
  if (recovered) {
    const ended = `The previous kernel ended: ${recovered.cause.message} Cella does not run the code again.`;
    return [ended, ...describeRestored(recovered)];
  }
  return resumed && restoredAnything(resumed) ? describeRestored(resumed) : [];
}

/** False for a save without variables: there is nothing to report. */
function restoredAnything({ savedAgoMs, restored, lost }: Resumed): boolean {
  return savedAgoMs === undefined || restored.length + lost.length > 0;
}

function describeRestored({ savedAgoMs, restored, moreRestored, lost, moreLost }: Resumed): string[] {
  const back =
    savedAgoMs === undefined
      ? 'No save can be read: all variables are lost.'
      : `Variables restored from a save, ${formatSeconds(savedAgoMs)} old: ${listVariables(restored, moreRestored)}.`;
  return [back, ...describeLost(lost, moreLost)];
}

function describeLost(lost: readonly LostVariable[], more = 0): string[] {
  if (lost.length + more === 0) return [];
  const described = lost
    .slice(0, MAX_VARIABLES)
    .map(({ name, reason }) => `${name === '*' ? 'what was saved' : name} (${reason})`);
  return [`Lost: ${described.join(', ')}${countRest(lost.length + more)}.`];
}

function listVariables(all: readonly string[], more = 0): string {
  return all.length === 0 ? 'none' : all.slice(0, MAX_VARIABLES).join(', ') + countRest(all.length + more);
}

function countRest(count: number): string {
  return count > MAX_VARIABLES ? ` and ${count - MAX_VARIABLES} more` : '';
}

function formatSeconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
}

const OUTPUT_KIND = 'output of run_code';
/** Per agent key; the oldest are deleted. */
const MAX_KEPT_ARTIFACTS = 20;

interface FullOutput {
  readonly agentKey: string;
  readonly execution: number;
  readonly text: string;
  /** False if the middle was lost. */
  readonly complete: boolean;
}

/** Saves the full output and returns the line that says where. Never throws: the result matters more than the cut part. */
export async function saveFullOutput(
  session: { readonly artifacts: ArtifactsApi },
  { agentKey, execution, text, complete }: FullOutput,
): Promise<string> {
  const agent = createHash('sha256').update(agentKey).digest('hex').slice(0, 8);
  const name = `output-${agent}-${execution}.txt`;
  try {
    // An unconfirmed fork has no artifacts.
    const { artifacts } = session;
    await artifacts.save(name, Buffer.from(text), {
      type: 'text',
      mediaType: 'text/plain; charset=utf-8',
      description: `${complete ? 'All output' : 'The beginning and the end of the output'} of execution ${execution}.`,
      metadata: { kind: OUTPUT_KIND, agent },
    });
    // If a deletion fails, the next output tries again.
    await deleteOlder(artifacts, agent).catch(() => {});
    const what = complete ? 'The full output is' : 'Its beginning and end are';
    return `[The output was cut. ${what} in the artifact ${name}: text = artifacts.load(${JSON.stringify(name)})]`;
  } catch (error) {
    const reason = error instanceof CellaError ? error.message : 'it could not be saved';
    return `[The output was cut, and the rest is lost: ${reason}]`;
  }
}

async function deleteOlder(artifacts: ArtifactsApi, agent: string): Promise<void> {
  const own: { readonly name: string; readonly updatedAt: number }[] = [];
  for await (const { name, updatedAt, metadata } of everyArtifact(artifacts)) {
    if (metadata.kind === OUTPUT_KIND && metadata.agent === agent) own.push({ name, updatedAt });
  }
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
  const text = 'UNEXPECTED: Cella could not do this. The log of the server says why.';
  return { isError: true, content: [{ type: 'text', text }], _meta: { 'cella/code': 'UNEXPECTED' } };
}

/** Text forms of a value, most informative first. */
const TEXT_TYPES = ['text/plain', 'text/markdown', 'text/html', 'image/svg+xml', 'application/json'];

const MAX_HEAD = 8 * 1024 * 1024;
const MAX_TAIL = 64 * 1024;

/** The output and displays of one execution, in bounded memory: text with its middle cut out, and images that a model can read. */
export class ExecutionOutput {
  readonly images = new ImageCollector();
  readonly #text = new TruncatedText(MAX_HEAD + MAX_TAIL, { head: MAX_HEAD });

  /** Whether the last line has no end yet. */
  #inLine = false;

  /** The kept text. */
  get text(): string {
    const { lost } = this;
    const [head, tail] = this.#text.parts;
    return (head + (lost > 0 ? gapOf(lost, 'were not kept') : '') + tail).toWellFormed();
  }

  /** How many characters are not kept. */
  get lost(): number {
    return this.#text.cutCharacters;
  }

  take(event: ExecutionEvent): void {
    if (event.type === 'stdout' || event.type === 'stderr') this.#push(event.text);
    else if (event.type === 'display') this.#line(this.show(event.data));
  }

  /** Keeps the image of a value, and returns its placeholder text. */
  show(data: MimeBundle): string | undefined {
    const image = this.images.take(data);
    if (image !== undefined) return image;
    const found = TEXT_TYPES.map((type) => data[type]).find((form) => typeof form === 'string');
    return typeof found === 'string' ? found : `[${Object.keys(data).join(', ')}: cannot be shown here]`;
  }

  #push(text: string): void {
    if (text === '') return;
    this.#text.push(text);
    this.#inLine = !text.endsWith('\n');
  }

  #line(text: string | undefined): void {
    if (text === undefined) return;
    this.#push(`${this.#inLine ? '\n' : ''}${text}\n`);
  }
}

/** Text longer than `most` characters is reduced to its beginning and end, with the number of characters lost in between. */
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

/** Image types that models accept. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const MAX_IMAGES = 12;
/** The limit of base64 in total: clients accept messages of up to 10 MB. */
const MAX_BASE64_CHARACTERS = 5_000_000;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

class ImageCollector {
  readonly #content: ImageContent[] = [];
  #characters = 0;

  get content(): readonly ImageContent[] {
    return this.#content;
  }

  /** Takes the image of a value and returns its placeholder text; undefined if the value has no image. */
  take(data: MimeBundle): string | undefined {
    const mimeType = IMAGE_TYPES.find((type) => typeof data[type] === 'string');
    const image = mimeType === undefined ? undefined : data[mimeType];
    if (mimeType === undefined || typeof image !== 'string') return undefined;
    const tooMuch = this.#content.length >= MAX_IMAGES || this.#characters + image.length > MAX_BASE64_CHARACTERS;
    const size = `${mimeType}, ${Math.ceil((image.length * 3) / 4 / 1000)} kB`;
    if (tooMuch) return `[${size}: too much to show; make it smaller, or save it with artifacts.save()]`;
    const base64 = image.replace(/\s+/g, '');
    if (!BASE64.test(base64) || base64.length % 4 !== 0) return `[${mimeType}: its data is not base64, not shown]`;
    this.#characters += base64.length;
    this.#content.push({ type: 'image', data: base64, mimeType });
    return `[picture ${this.#content.length}: ${size}]`;
  }
}
