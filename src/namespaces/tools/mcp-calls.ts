/** Calls of the tools of an MCP server: arguments checked by its schema, results and errors for Python. */

import {
  type CallToolResult,
  type JsonSchemaType,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  type Tool,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier, ParameterType, type ToolParameter } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { abortedError, argumentError, bindArguments, type CallArguments } from './parameters.ts';
import { SchemaValidator } from './schema-validator.ts';
import { redact } from './tool-credentials.ts';
import { CALLABLE_METHODS, type McpTool } from './tool-definition.ts';
import { cutNote, decodeWhole, jsonProblem, type LargeResultTurn, parseToolJson, tail } from './tool-output.ts';

/** Arguments that fit the schema of the server's tool. */
export interface McpToolCall {
  readonly callee: string;
  readonly tool: McpTool;
  /** The server's own name of the tool. */
  readonly name: string;
  readonly arguments: Readonly<Record<string, PyValue>>;
}

/** `tools`: the server's tools by their names in code. The server's own names work too. */
export function prepareMcp(
  tool: McpTool,
  tools: ReadonlyMap<string, Tool>,
  recipe: string | undefined,
  given: CallArguments,
): McpToolCall {
  const served =
    recipe === undefined ? undefined : (tools.get(recipe) ?? [...tools.values()].find(({ name }) => name === recipe));
  if (served === undefined) throw noSuchTool(tool, recipe, [...tools.keys()]);
  const callee = `${tool.name}.${recipe}`;
  const schema = served.inputSchema;
  const known = schemaParameters(schema);
  // The server applies its defaults itself.
  const listed = known.map((parameter) => ({ ...parameter, default: undefined }));
  const parameters = [...listed, ...(takesMore(schema) ? unlisted(known, given) : [])];
  const args = Object.fromEntries(bindArguments(callee, { parameters, presetValues: new Map() }, given).values);
  const problem = jsonProblem(args, { big: false }) ?? schemaProblem(schema, args);
  if (problem !== undefined) throw argumentError(callee, known, `got wrong arguments: ${problem}`);
  return { callee, tool, name: served.name, arguments: args };
}

function unlisted(known: readonly ToolParameter[], { named }: CallArguments): ToolParameter[] {
  const names = Object.keys(named).filter((name) => !known.some((parameter) => parameter.name === name));
  return names.map((name) => ({
    name,
    type: 'any',
    description: '',
    required: false,
    positional: false,
    variadic: false,
  }));
}

function noSuchTool(tool: McpTool, recipe: string | undefined, known: readonly string[]): CellaError {
  const list = known.length === 0 ? 'It has none.' : `It has ${known.join(', ')}.`;
  const problem =
    recipe === undefined ? 'is an MCP server: call one of its tools' : `has no tool ${JSON.stringify(recipe)}`;
  const code = recipe === undefined ? 'TOOL_ARGUMENTS' : 'TOOL_NOT_FOUND';
  return new CellaError(code, `tools.${tool.name} ${problem}. ${list}`, { details: { tool: tool.name, known } });
}

/** Leaves out parts of the schema that are not understood. The schema itself still checks the values. */
const Default = z.json().optional().catch(undefined);
const Enum = z.array(z.json()).min(1).optional().catch(undefined);

const Schema = z.custom<JsonSchemaType>((value) => typeof value === 'object' && value !== null);

function knownType(type: unknown): ParameterType {
  return ParameterType.options.find((known) => known === type) ?? 'any';
}

export function schemaParameters(schema: Tool['inputSchema']): ToolParameter[] {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    // Checked only if given: a schema may have thousands of properties, and checks take time.
    const { type, description, default: value, enum: values }: Partial<Record<string, unknown>> = Object(property);
    const needed = required.has(name);
    return {
      name,
      type: knownType(type),
      description: typeof description === 'string' ? description : '',
      default: value === undefined ? undefined : Default.parse(value),
      enum: values === undefined ? undefined : Enum.parse(values),
      required: needed,
      positional: needed,
      variadic: false,
    };
  });
}

/** Whether the schema allows names that it does not list. Only if it says so, so that misspelled names are found. */
export function takesMore(schema: Tool['inputSchema']): boolean {
  const { additionalProperties: more } = schema;
  return more === true || (typeof more === 'object' && more !== null);
}

/** Why the arguments do not match the schema, at any depth; undefined if they do. */
export function schemaProblem(
  schema: Tool['inputSchema'],
  values: Readonly<Record<string, unknown>>,
): string | undefined {
  try {
    const result = new SchemaValidator().getValidator(Schema.parse(schema))(values);
    return result.valid ? undefined : result.errorMessage;
  } catch (error) {
    return `the server's own schema cannot be used (${messageOf(error)})`;
  }
}

/** A valid name in code: `read_file` for `read-file`. */
export function pythonName(name: string): string {
  const plain = name.replace(/\P{XIDC}/gu, '_').replace(/^_+/, '');
  for (const candidate of [plain, `${plain}_`, `tool_${plain}`]) {
    try {
      return checkIdentifier(candidate, 'tool', CALLABLE_METHODS);
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
    }
  }
  return 'tool_';
}

/** Structured content if there is some, else text. If there are images or audio, a list of parts. */
export async function mcpValue(
  callee: string,
  tool: McpTool,
  result: CallToolResult,
  secrets: readonly string[],
  turn?: LargeResultTurn,
): Promise<PyValue> {
  if (result.isError === true) {
    const said = tail(redact(textOf(result), secrets)).trim();
    const message = `tools.${callee} failed.${said === '' ? '' : ` It said: ${said}`}`;
    throw new CellaError('TOOL_FAILED', message, { details: { tool: callee } });
  }
  if (result.structuredContent !== undefined) {
    const text = JSON.stringify(result.structuredContent);
    if (Buffer.byteLength(text) > tool.output_limit) throw tooLarge(callee, tool);
    return await parseToolJson(redact(text, secrets), `What tools.${callee} gave`, turn);
  }
  if (result.content.every((part) => part.type === 'text'))
    return bounded(redact(textOf(result), secrets), tool.output_limit);
  if (Buffer.byteLength(JSON.stringify(result.content)) > tool.output_limit) throw tooLarge(callee, tool);
  return await Promise.all(result.content.map((part) => partValue(callee, part, secrets, turn)));
}

function textOf({ content }: CallToolResult): string {
  return content.flatMap((part) => (part.type === 'text' ? part.text : [])).join('\n');
}

async function partValue(
  callee: string,
  part: CallToolResult['content'][number],
  secrets: readonly string[],
  turn?: LargeResultTurn,
): Promise<PyValue> {
  if (part.type === 'image' || part.type === 'audio') {
    return { type: part.type, mimeType: part.mimeType, data: new Uint8Array(Buffer.from(part.data, 'base64')) };
  }
  return await parseToolJson(redact(JSON.stringify(part), secrets), `What tools.${callee} gave`, turn);
}

function bounded(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return text;
  return decodeWhole(bytes.subarray(0, limit)) + cutNote(bytes.length - limit);
}

function tooLarge(callee: string, tool: McpTool): CellaError {
  return new CellaError(
    'TOOL_FAILED',
    `tools.${callee} returned more than the ${tool.output_limit} bytes of its \`output_limit\`.`,
  );
}

interface ServerOutput {
  readonly secrets: readonly string[];
  readonly stderrTail: string;
}

/** The server could not be started or reached. */
export function openError(tool: McpTool, said: ServerOutput, error: unknown): CellaError {
  if (error instanceof CellaError) return error;
  const reason = describe(error, said);
  if (isTimeout(error)) {
    return new CellaError(
      'TOOL_TIMEOUT',
      `The MCP server ${tool.name} did not start within the ${tool.start_timeout} s of its \`start_timeout\`: ${reason}.`,
    );
  }
  return new CellaError('TOOL_FAILED', `The MCP server ${tool.name} could not be used: ${reason}.`);
}

export function callFailure(
  callee: string,
  tool: McpTool,
  said: ServerOutput,
  error: unknown,
  signal: AbortSignal,
): { readonly error: CellaError; readonly connectionLost: boolean } {
  const details = { details: { tool: callee } };
  if (signal.aborted) return { error: abortedError(callee), connectionLost: false };
  if (isTimeout(error)) {
    const message = `tools.${callee} did not answer within ${tool.timeout} s.`;
    return { error: new CellaError('TOOL_TIMEOUT', message, details), connectionLost: false };
  }
  const message = `tools.${callee} failed: ${describe(error, said)}.`;
  return { error: new CellaError('TOOL_FAILED', message, details), connectionLost: !ProtocolError.isInstance(error) };
}

/** In the MCP standard, 404 means that the server has forgotten the session and a new one is needed. */
export function isLostSession(error: unknown): boolean {
  return SdkHttpError.isInstance(error) && error.data.status === 404;
}

function isTimeout(error: unknown): boolean {
  return SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout;
}

function describe(error: unknown, { secrets, stderrTail }: ServerOutput): string {
  const gone = SdkError.isInstance(error) && error.code === SdkErrorCode.ConnectionClosed;
  const reason = gone ? 'the server ended' : error instanceof Error ? reasonOf(error) : String(error);
  const text = stderrTail === '' ? reason : `${reason}. Its last words: ${stderrTail}`;
  return tail(redact(text, secrets)).replace(/\.$/, '');
}

/** The reason of a failed `fetch`, which is in its cause. */
function reasonOf({ message, cause }: Error): string {
  return cause instanceof Error && cause.message !== '' ? `${message} (${cause.message})` : message;
}
